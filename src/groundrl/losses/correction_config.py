"""Settings of the correction for engine and learner giving a token different probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from groundrl.config.registry import register
from groundrl.errors import ConfigError

if TYPE_CHECKING:
    from groundrl.losses.correction import Correction


@dataclass(kw_only=True, slots=True)
class CorrectionConfig:
    """Base of the correction options; the formulas stand in losses/correction.py.

    weighs   whether tokens get a weight
    """

    weighs: ClassVar[bool] = True

    def build(self) -> Correction | None:
        """The token weight, or None for no correction."""
        return None


@register("algorithm/correction", "none")
@dataclass(kw_only=True, slots=True)
class NoCorrectionConfig(CorrectionConfig):
    """The gap is measured and not corrected."""

    weighs: ClassVar[bool] = False


@register("algorithm/correction", "tis")
@dataclass(kw_only=True, slots=True)
class TISConfig(CorrectionConfig):
    """Truncated importance sampling: each token weighs min(learner / engine, cap)."""

    cap: float = 2.0

    def __post_init__(self) -> None:
        if not self.cap >= 1:
            raise ConfigError(
                "cap", "must be >= 1, or tokens without a gap are weighed down", got=self.cap, todo="use 2"
            )

    def build(self) -> Correction:
        from groundrl.losses.correction import Truncate

        return Truncate(cap=self.cap)


@register("algorithm/correction", "mask")
@dataclass(kw_only=True, slots=True)
class MaskConfig(CorrectionConfig):
    """Tokens whose ratio learner / engine lies outside [low, high] weigh 0, others the ratio
    (published: 0.5 and 5)."""

    low: float = 0.5
    high: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1:
            raise ConfigError("low", "must lie in [0, 1]", got=self.low, todo="use 0.5")
        if not self.high >= 1:
            raise ConfigError("high", "must be >= 1", got=self.high, todo="use 5")

    def build(self) -> Correction:
        from groundrl.losses.correction import Mask

        return Mask(low=self.low, high=self.high)
