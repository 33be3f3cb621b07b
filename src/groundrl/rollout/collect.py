"""The agent loop: ask the engine for a turn, let the hooks look at it, go on or finish."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from groundrl.errors import UserError
from groundrl.models.processor import Processor
from groundrl.parsing.tags import scan_tags
from groundrl.prompting.prompt import Prompt
from groundrl.rollout.engines.base import Completion, Engine, Request, Sampling
from groundrl.rollout.episode import Context, Episode, NextTurn, RolloutKind
from groundrl.types import ImageFrame, Role, Rollout, RolloutStatus, Said, Sample


class Collector:
    """Makes rollouts of samples. Everything drawn is fixed by (weights, samples, seed).

    limit: most tokens of a context and the turn after it that the engine takes (None: what the model does).
    seconds: that the engine took, by the role of what it was asked for; `take_seconds` starts anew.
    """

    def __init__(
        self,
        engine: Engine,
        processor: Processor,
        prompt: Prompt,
        kind: RolloutKind,
        *,
        limit: int | None = None,
    ) -> None:
        self.engine = engine
        self.processor = processor
        self.prompt = prompt
        self.kind = kind
        limits = [one for one in (limit, processor.context_length) if one is not None]
        self.limit = min(limits) if limits else None
        self.seconds: dict[Role, float] = {}

    def drawing_with(self, engine: Engine) -> Collector:
        """The same one on another engine."""
        return Collector(engine, self.processor, self.prompt, self.kind, limit=self.limit)

    def asking(self, *, prompt: Prompt | None = None, kind: RolloutKind | None = None) -> Collector:
        """The same one with another prompt, or with other hooks."""
        kind = kind or self.kind
        return Collector(self.engine, self.processor, prompt or self.prompt, kind, limit=self.limit)

    def take_seconds(self) -> dict[Role, float]:
        """Seconds of the engine by role since the last call."""
        taken, self.seconds = self.seconds, {}
        return taken

    def contexts(self, samples: Sequence[Sample]) -> list[Context]:
        """Prompt ids and prepared images of each sample. Nothing is ever cut: raises UserError when a prompt
        leaves no room for an answer in the model's context."""
        out: list[Context] = []
        for sample in samples:
            images = tuple(self.processor.prepare(image) for image in sample.images)
            context = Context(ids=self.processor.render(self.prompt.messages(sample), images), images=images)
            self._check_length(sample, context)
            out.append(context)
        return out

    def _check_length(self, sample: Sample, context: Context) -> None:
        limit = self.processor.context_length
        if limit is None or len(context.ids) < limit:
            return
        counts = [self.processor.family.image_tokens(image.grid_thw) for image in context.images]
        sizes = ", ".join("{} x {}".format(*image.frame.processed) for image in context.images)
        raise UserError(
            f"sample {sample.id}: the prompt has {len(context.ids)} tokens, {sum(counts)} of them of "
            f"{len(counts)} images ({sizes}), and the model's context is {limit}; lower model.max_pixels, or "
            "leave the sample out"
        )

    def collect(
        self,
        samples: Sequence[Sample],
        per_sample: int,
        sampling: Sampling,
        *,
        seed: Sequence[int],
        contexts: Sequence[Context] | None = None,
        first: int = 0,
    ) -> list[Rollout]:
        """`per_sample` rollouts of each sample, those of one sample side by side.

        seed: numbers that name this call (run seed, step, ...); a completion's own seed is derived from
        them and its place. contexts: what `contexts(samples)` returned, to save preparing them again.
        first: place of the first sample, when a longer list is collected in pieces.
        """
        contexts = contexts if contexts is not None else self.contexts(samples)
        episodes: list[Episode] = []
        for group, (sample, context) in enumerate(zip(samples, contexts, strict=True)):
            for index in range(per_sample):
                own = int(
                    np.random.SeedSequence([*seed, first + group, index]).generate_state(1, np.uint64)[0]
                )
                episode = Episode(sample=sample, group=group, index=index, seed=own, context=context)
                episode.begin_segment(context)
                episodes.append(episode)
        active = episodes
        while active:
            self._turn(active, sampling)
            active = [episode for episode in active if episode.status is None]
        frames = [tuple(image.frame for image in context.images) for context in contexts]
        return [self._finish(episode, frames[episode.group]) for episode in episodes]

    def _turn(self, episodes: list[Episode], sampling: Sampling) -> None:
        """The next turn of each. Turns that are drawn alike are drawn together."""
        alike: dict[tuple[Role, Sampling], list[Episode]] = {}
        for episode in episodes:
            alike.setdefault((episode.asked.role, _drawn(sampling, episode.asked)), []).append(episode)
        for (role, own), members in alike.items():
            started = time.perf_counter()
            owners, completions = self._generate(members, own)
            self.seconds[role] = self.seconds.get(role, 0.0) + time.perf_counter() - started
            for group, drawn in zip(owners, completions, strict=True):
                for episode, completion in zip(group, drawn, strict=True):
                    episode.append_turn(completion)
                    if completion.finished or episode.asked.role is Role.VERIFY:
                        self._advance(episode, sampling)
                    else:
                        episode.status = RolloutStatus.TRUNCATED_LENGTH

    def _generate(
        self, episodes: list[Episode], sampling: Sampling
    ) -> tuple[list[list[Episode]], list[list[Completion]]]:
        """Episodes by the context they share, and what was drawn for each."""
        owners: list[list[Episode]] = []
        by_context: dict[int, int] = {}
        for episode in episodes:
            key = id(episode.context.ids)
            if key not in by_context:
                by_context[key] = len(owners)
                owners.append([])
            owners[by_context[key]].append(episode)
        requests = [
            Request(
                prompt_ids=group[0].context.ids,
                images=group[0].context.images,
                seeds=tuple((episode.seed + episode.turns) % 2**64 for episode in group),
            )
            for group in owners
        ]
        return owners, self.engine.generate(requests, sampling)

    def _advance(self, episode: Episode, sampling: Sampling) -> None:
        replacement = self.kind.on_action(episode)
        if replacement is not None:
            episode.replace_turn(replacement.insertion, replacement.keep)
        following = self.kind.next_turn(episode)
        if following is None:
            episode.status = RolloutStatus.FINISHED
            return
        if episode.turns >= self.kind.max_turns:
            episode.status = RolloutStatus.TRUNCATED_TURNS
            return
        room = _drawn(sampling, following).max_new_tokens
        if not episode.fits(following.insertions, room, self.limit):
            episode.status = RolloutStatus.TRUNCATED_CONTEXT
            return
        for insertion in following.insertions:
            episode.append(insertion)
        rewritten = self.kind.context_filter(episode)
        if rewritten is not None:
            episode.begin_segment(rewritten)
        episode.asked = following

    def _finish(self, episode: Episode, frames: tuple[ImageFrame, ...]) -> Rollout:
        assert episode.status is not None
        text = self.processor.decode(episode.answer)
        think = scan_tags(text).think
        return Rollout(
            sample_id=episode.sample.id,
            group=episode.group,
            index=episode.index,
            segments=episode.segments,
            status=episode.status,
            text=text,
            frames=frames,
            coordinate_space=self.processor.family.coordinate_space,
            seed=episode.seed,
            turns=episode.turns,
            said=self._said(episode),
            think_tokens=len(self.processor.encode(think)) if think else 0,
        )

    def _said(self, episode: Episode) -> tuple[Said, ...]:
        if [role for role, _ in episode.said] == [Role.STUDENT]:
            return ()
        return tuple(
            Said(role=role, text=self.processor.decode(ids), tokens=len(ids)) for role, ids in episode.said
        )


def _drawn(sampling: Sampling, asked: NextTurn) -> Sampling:
    """How a turn is drawn that the rollout draws by `sampling`."""
    most = sampling.max_new_tokens if asked.max_new_tokens is None else asked.max_new_tokens
    return replace(sampling, max_new_tokens=most, choices=asked.choices)
