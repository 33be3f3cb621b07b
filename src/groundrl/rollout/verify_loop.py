"""Settings of the verification loop: what the policy is asked about its own answer, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.verdict import read_verdict


class Count(StrEnum):
    """What `limit` counts: rounds are answers, turns are answers and verdicts."""

    rounds = "rounds"
    turns = "turns"


class VerdictDecoding(StrEnum):
    """How a verdict is drawn.

    auto    one of the two words where the engine can be held to them, else freely
    choice  one of the two words
    free    any text of `verdict_tokens`, then read; what holds neither word counts as NO, and is counted
    """

    auto = "auto"
    choice = "choice"
    free = "free"


@register("verify", "loop")
@dataclass(kw_only=True, slots=True)
class VerifyConfig:
    """An answer, a verdict on it by the same weights, another answer after a NO (SVR-R1, section 3).

    limit            of a rollout: 3 for charts, tables and ThinkLite-70K, 5 for its hard split (published)
    count            what the limit counts
    verify_prompt    user turn that asks for the verdict
    rethink_prompt   user turn that asks for another answer
    verify_last      ask for a verdict on the last answer too, which changes nothing but is recorded
    decoding         how a verdict is drawn
    verdict_tokens   token limit of a verdict
    yes, no          the two verdicts, as `choice` writes them
    """

    limit: int = 3
    count: Count = Count.rounds
    verify_prompt: str = ""
    rethink_prompt: str = ""
    verify_last: bool = False
    decoding: VerdictDecoding = VerdictDecoding.auto
    verdict_tokens: int = 16
    yes: str = "<YES>"
    no: str = "<NO>"

    def __post_init__(self) -> None:
        for key in ("limit", "verdict_tokens"):
            if getattr(self, key) < 1:
                raise ConfigError(key, "must be >= 1", got=getattr(self, key), todo="published: limit=3")
        for key, said in (("yes", True), ("no", False)):
            word = getattr(self, key)
            if read_verdict(word) is not said:
                raise ConfigError(
                    key, f"is not read as {key.upper()}", got=word, todo=f"e.g. <{key.upper()}>"
                )

    @property
    def rounds(self) -> int:
        """Most answers of a rollout: a verdict stands between two."""
        return self.limit if self.count is Count.rounds else (self.limit + 1) // 2
