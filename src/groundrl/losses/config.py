"""Settings of the policy loss and of the pull towards a reference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from groundrl.config.registry import register
from groundrl.errors import ConfigError

if TYPE_CHECKING:
    from groundrl.losses.term import Term


class Normalisation(StrEnum):
    """How token losses become one number.

    sequence_mean   mean over rollouts of each rollout's token mean (GRPO as published)
    token_mean      mean over all tokens of the batch (DAPO)
    constant        sum over a rollout divided by max_new_tokens, mean over rollouts (Dr. GRPO)
    """

    sequence_mean = "sequence_mean"
    token_mean = "token_mean"
    constant = "constant"


@dataclass(kw_only=True, slots=True)
class LossConfig:
    """Base of the loss options."""

    normalisation: Normalisation = Normalisation.sequence_mean

    def build(self) -> Term:
        raise ConfigError("", "this loss has no build()", todo="register a Config that overrides build")

    def bounds(self) -> tuple[str, ...]:
        """Settings that bound the ratio, and so do nothing while it is 1."""
        return ()


@register("algorithm/loss", "clip")
@dataclass(kw_only=True, slots=True)
class ClipConfig(LossConfig):
    """The clipped surrogate: the ratio is clipped to [1 - clip_low, 1 + clip_high].

    Published: 0.2 on both sides; one script uses clip_high 0.28.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.clip_low < 1:
            raise ConfigError("clip_low", "must lie in (0, 1)", got=self.clip_low, todo="use 0.2")
        if not self.clip_high > 0:
            raise ConfigError("clip_high", "must be > 0", got=self.clip_high, todo="use 0.2 or 0.28")

    def build(self) -> Term:
        from groundrl.losses.clip import Clip

        return Clip(clip_low=self.clip_low, clip_high=self.clip_high)

    def bounds(self) -> tuple[str, ...]:
        return ("clip_low", "clip_high")


@register("algorithm/loss", "gspo")
@dataclass(kw_only=True, slots=True)
class GSPOConfig(LossConfig):
    """The clipped surrogate of the length-normalised ratio of whole sequences.

    Published: 3e-4 and 4e-4 (a mean over tokens moves far less than a token's ratio).
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def __post_init__(self) -> None:
        if not 0 < self.clip_low < 1:
            raise ConfigError("clip_low", "must lie in (0, 1)", got=self.clip_low, todo="use 3e-4")
        if not self.clip_high > 0:
            raise ConfigError("clip_high", "must be > 0", got=self.clip_high, todo="use 4e-4")

    def build(self) -> Term:
        from groundrl.losses.gspo import GSPO

        return GSPO(clip_low=self.clip_low, clip_high=self.clip_high)

    def bounds(self) -> tuple[str, ...]:
        return ("clip_low", "clip_high")


@register("algorithm/loss", "cispo")
@dataclass(kw_only=True, slots=True)
class CISPOConfig(LossConfig):
    """Policy gradient weighed by the ratio, bounded to [1 - clip_low, 1 + clip_high].

    clip_low 1 is no lower bound, as published; the paper gives no upper value, here a weight of at most 5.
    """

    clip_low: float = 1.0
    clip_high: float = 4.0
    normalisation: Normalisation = Normalisation.token_mean

    def __post_init__(self) -> None:
        if not 0 < self.clip_low <= 1:
            raise ConfigError("clip_low", "must lie in (0, 1]", got=self.clip_low, todo="use 1 for no bound")
        if not self.clip_high > 0:
            raise ConfigError("clip_high", "must be > 0", got=self.clip_high, todo="use 4")

    def build(self) -> Term:
        from groundrl.losses.cispo import CISPO

        return CISPO(clip_low=self.clip_low, clip_high=self.clip_high)

    def bounds(self) -> tuple[str, ...]:
        return ("clip_low", "clip_high")


@register("algorithm/loss", "reinforce")
@dataclass(kw_only=True, slots=True)
class ReinforceConfig(LossConfig):
    """The policy gradient without a ratio, for one update a batch; `constant` sums over a rollout."""

    normalisation: Normalisation = Normalisation.constant

    def build(self) -> Term:
        from groundrl.losses.reinforce import reinforce

        return reinforce


@dataclass(kw_only=True, slots=True)
class KLConfig:
    """Base of the KL options. beta 0 means that no reference model is kept."""

    def weight(self) -> float:
        return 0.0


@register("algorithm/kl", "none")
@dataclass(kw_only=True, slots=True)
class NoKLConfig(KLConfig):
    """No reference (published for open-vocabulary detection)."""


@register("algorithm/kl", "k3")
@dataclass(kw_only=True, slots=True)
class K3Config(KLConfig):
    """k3 estimator per token, weighted by beta (published for REC: 0.04)."""

    beta: float = 0.04

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ConfigError("beta", "must be > 0", got=self.beta, todo="use algorithm/kl=none for no KL")

    def weight(self) -> float:
        return self.beta


@register("algorithm/kl", "auto")
@dataclass(kw_only=True, slots=True)
class AutoKLConfig(KLConfig):
    """k3 with the weight published for the task and scale; 0 where none was used."""

    beta: float = 0.0

    def __post_init__(self) -> None:
        if self.beta < 0:
            raise ConfigError("beta", "must be >= 0", got=self.beta, todo="use 0 for none")

    def weight(self) -> float:
        return self.beta
