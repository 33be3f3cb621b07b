"""One rollout while it is being made: its context, its segments, and the hooks that steer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from groundrl.rollout.engines.base import Completion
from groundrl.types import PreparedImage, Role, RolloutStatus, Sample, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the policy sees before a turn: ids (images expanded) and the images they place."""

    ids: NDArray[np.int64]
    images: tuple[PreparedImage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Tokens that the policy did not sample, with the role losses know them by."""

    ids: NDArray[np.int64]
    role: Role
    images: tuple[PreparedImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """What stands between a turn and the next one, and how that is drawn.

    role            STUDENT for what is answered and learned from, VERIFY for a verdict on it
    max_new_tokens  limit of this turn (None: that of the rollout)
    choices         the texts it may consist of (empty: any)
    supersedes      once it is drawn, earlier answers are drafts that are not learned from
    """

    insertions: tuple[Insertion, ...] = ()
    role: Role = Role.STUDENT
    max_new_tokens: int | None = None
    choices: tuple[str, ...] = ()
    supersedes: bool = False


FIRST_TURN = NextTurn()


@dataclass(slots=True, kw_only=True)
class Episode:
    """A rollout in the making.

    context   what the next turn sees
    asked     how the next turn is drawn
    turns     that were sampled, whoever's part they played
    last_turn ids of the latest one; `answer` those of the latest that was no verdict
    said      role and ids of each, in order
    """

    sample: Sample
    group: int
    index: int
    seed: int
    context: Context
    segments: list[Segment] = field(default_factory=list[Segment])
    asked: NextTurn = FIRST_TURN
    turns: int = 0
    last_turn: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    answer: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    said: list[tuple[Role, NDArray[np.int64]]] = field(default_factory=list["tuple[Role, NDArray[np.int64]]"])
    status: RolloutStatus | None = None

    def begin_segment(self, context: Context) -> None:
        """Start a training row on a context that is not an extension of the last one."""
        self.context = context
        nothing = np.zeros(0, dtype=np.int64)
        self.segments.append(
            Segment(
                prompt_ids=context.ids,
                images=context.images,
                response_ids=nothing,
                roles=nothing.astype(np.int8),
                behaviour_logprobs=nothing.astype(np.float32),
                turn=self.turns,
            )
        )

    def append_turn(self, completion: Completion) -> None:
        """Append what the policy sampled, in the role that it was asked in."""
        self.turns += 1
        if self.asked.supersedes:
            for segment in self.segments:
                taken_back = segment.roles == Role.STUDENT
                segment.roles = np.where(taken_back, np.int8(Role.DRAFT), segment.roles)
        self._say(completion.ids)
        self._append(completion.ids, self.asked.role, completion.logprobs, ())

    def _say(self, ids: NDArray[np.int64]) -> None:
        self.last_turn = ids
        self.said.append((self.asked.role, ids))
        if self.asked.role is not Role.VERIFY:
            self.answer = ids

    def append(self, insertion: Insertion) -> None:
        """Append what it did not sample: an observation, a verifier's words, a template."""
        nan = np.full(len(insertion.ids), np.nan, dtype=np.float32)
        self._append(insertion.ids, insertion.role, nan, insertion.images)

    def fits(self, insertions: Sequence[Insertion], room: int, limit: int | None) -> bool:
        """Whether the insertions, and a turn of `room` tokens after them, stay within `limit` tokens."""
        added = sum(len(insertion.ids) for insertion in insertions)
        return limit is None or len(self.context.ids) + added + room <= limit

    def replace_turn(self, insertion: Insertion, keep: int) -> None:
        """Keep the first `keep` tokens of the last turn and put `insertion` in place of the rest."""
        segment = self.segments[-1]
        cut = len(segment.response_ids) - len(self.last_turn) + keep
        segment.response_ids = segment.response_ids[:cut]
        segment.roles = segment.roles[:cut]
        segment.behaviour_logprobs = segment.behaviour_logprobs[:cut]
        self.said.pop()
        self._say(np.concatenate([self.last_turn[:keep], insertion.ids]))
        self.append(insertion)

    def _append(
        self,
        ids: NDArray[np.int64],
        role: Role,
        logprobs: NDArray[np.float32],
        images: tuple[PreparedImage, ...],
    ) -> None:
        segment = self.segments[-1]
        segment.response_ids = np.concatenate([segment.response_ids, ids])
        segment.roles = np.concatenate([segment.roles, np.full(len(ids), role, dtype=np.int8)])
        segment.behaviour_logprobs = np.concatenate([segment.behaviour_logprobs, logprobs])
        if images:
            segment.images = (*segment.images, *images)
        self.context = Context(
            ids=np.concatenate([segment.prompt_ids, segment.response_ids]), images=segment.images
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What `on_action` puts in place of the end of the last turn."""

    insertion: Insertion
    keep: int


class RolloutKind(Protocol):
    """The three hooks of the agent loop. Every kind of rollout is these, none is a loop of its own."""

    max_turns: int

    def on_action(self, episode: Episode) -> Replacement | None:
        """After a turn: keep what the policy wrote (None) or replace its end (the observation gate)."""
        ...

    def next_turn(self, episode: Episode) -> NextTurn | None:
        """What stands between this turn and the next, and how that is drawn; None: it is finished."""
        ...

    def context_filter(self, episode: Episode) -> Context | None:
        """A rewritten context for the next turn (a dropped observation), which begins a new segment;
        None: the conversation goes on as it is."""
        ...
