"""`rollout=single_turn`: one prompt, one answer."""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.config.registry import register
from groundrl.models.processor import Processor
from groundrl.rollout.config import RolloutConfig
from groundrl.rollout.episode import Context, Episode, NextTurn, Replacement


@register("rollout", "single_turn")
@dataclass(kw_only=True, slots=True)
class SingleTurnConfig(RolloutConfig):
    """Settings of single-turn rollouts."""

    def build_kind(self, processor: Processor) -> SingleTurn:
        return SingleTurn()


class SingleTurn:
    """The agent loop with hooks that do nothing."""

    max_turns = 1

    def on_action(self, episode: Episode) -> Replacement | None:
        return None

    def next_turn(self, episode: Episode) -> NextTurn | None:
        return None

    def context_filter(self, episode: Episode) -> Context | None:
        return None
