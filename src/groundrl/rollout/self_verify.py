"""`rollout=self_verify`: answer, judge the answer, answer again after a NO (SVR-R1, section 3, arXiv
2607.10966).

The conversation is append-only: every answer and every verdict stays in the context, so a rollout is one
training row. Answers are learned from, with the advantage of the last one's reward; the requests and the
verdicts are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.models.processor import Processor
from groundrl.parsing.verdict import read_verdict
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.episode import Episode, Insertion, NextTurn, RolloutKind
from groundrl.rollout.single_turn import SingleTurn
from groundrl.rollout.verify_loop import VerdictDecoding, VerifyConfig
from groundrl.types import Message, Role, TextPart


class TrainRounds(StrEnum):
    """Whose tokens the loss counts: every answer's (the paper: the rollout without the verification tokens),
    or those of the last one only."""

    all = "all"
    final = "final"


@register("rollout", "self_verify")
@dataclass(kw_only=True, slots=True)
class SelfVerifyConfig(RolloutConfig):
    """Settings of self-verifying rollouts: the loop, and which answers are learned from."""

    verify: VerifyConfig = field(default_factory=VerifyConfig)
    train_rounds: TrainRounds = TrainRounds.all

    def build_kind(self, processor: Processor) -> SelfVerify:
        return SelfVerify(self.verify, self, processor, supersedes=self.train_rounds is TrainRounds.final)

    def build_eval_kind(self, processor: Processor) -> RolloutKind:
        """A single pass; the loop is measured beside it, as verified/..."""
        return SingleTurn()

    def loop(self) -> VerifyConfig:
        return self.verify


class SelfVerify(SingleTurn):
    """The hooks of the loop. `supersedes`: an answer that is given anew leaves the loss.

    Raises ConfigError for empty wording, and where verdicts are to be chosen and the engine cannot.
    """

    def __init__(
        self, config: VerifyConfig, rollout: RolloutConfig, processor: Processor, *, supersedes: bool = False
    ) -> None:
        chooses = rollout.engine.chooses
        if config.decoding is VerdictDecoding.choice and not chooses:
            raise ConfigError(
                "verify.decoding", "this engine cannot choose between texts", got="choice", todo="use auto"
            )
        for key in ("verify_prompt", "rethink_prompt"):
            if not getattr(config, key).strip():
                todo = "choose wording by verify=loop, or write your own"
                raise ConfigError(f"verify.{key}", "must not be empty", got=getattr(config, key), todo=todo)
        self.config = config
        self.processor = processor
        self.supersedes = supersedes
        self.choices = (
            (config.yes, config.no) if chooses and config.decoding is not VerdictDecoding.free else ()
        )
        self.max_turns = 2 * config.rounds
        self.verdicts = config.rounds if config.verify_last else config.rounds - 1

    def next_turn(self, episode: Episode) -> NextTurn | None:
        config = self.config
        answers = sum(role is not Role.VERIFY for role, _ in episode.said)
        if episode.asked.role is Role.VERIFY:
            text = self.processor.decode(episode.last_turn)
            if read_verdict(text) is True or answers == config.rounds:
                return None
            return self._ask(episode, config.rethink_prompt, NextTurn(supersedes=self.supersedes))
        if answers > self.verdicts:
            return None
        verdict = NextTurn(role=Role.VERIFY, max_new_tokens=config.verdict_tokens, choices=self.choices)
        return self._ask(episode, config.verify_prompt, verdict)

    def _ask(self, episode: Episode, text: str, turn: NextTurn) -> NextTurn:
        """`turn` behind a user turn of `text`."""
        ended = int(episode.last_turn[-1]) in self.processor.eos_ids
        message = Message(role="user", parts=(TextPart(text),))
        ids = self.processor.reply(message, ended=ended)
        return replace(turn, insertions=(Insertion(ids=ids, role=Role.PROMPT),))
