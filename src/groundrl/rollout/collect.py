"""The agent loop: ask the engine for a turn, let the hooks look at it, go on or finish."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groundrl.errors import UserError
from groundrl.models.processor import Processor
from groundrl.parsing.tags import scan_tags
from groundrl.prompting.prompt import Prompt
from groundrl.rollout.engines.base import Engine, Request, Sampling
from groundrl.rollout.episode import Context, Episode, RolloutKind
from groundrl.types import ImageFrame, Rollout, RolloutStatus, Sample


class Collector:
    """Makes rollouts of samples. Everything drawn is fixed by (weights, samples, seed)."""

    def __init__(self, engine: Engine, processor: Processor, prompt: Prompt, kind: RolloutKind) -> None:
        self.engine = engine
        self.processor = processor
        self.prompt = prompt
        self.kind = kind

    def drawing_with(self, engine: Engine) -> Collector:
        """The same one on another engine."""
        return Collector(engine, self.processor, self.prompt, self.kind)

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
        requests: list[Request] = []
        owners: list[list[Episode]] = []
        by_context: dict[int, int] = {}
        for episode in episodes:
            key = id(episode.context.ids)
            if key not in by_context:
                by_context[key] = len(owners)
                owners.append([])
            owners[by_context[key]].append(episode)
        for group in owners:
            seeds = tuple(episode.seed + episode.turns for episode in group)
            context = group[0].context
            requests.append(Request(prompt_ids=context.ids, images=context.images, seeds=seeds))
        for group, completions in zip(owners, self.engine.generate(requests, sampling), strict=True):
            for episode, completion in zip(group, completions, strict=True):
                episode.append_turn(completion)
                if not completion.finished:
                    episode.status = RolloutStatus.TRUNCATED_LENGTH
                    continue
                self._advance(episode)

    def _advance(self, episode: Episode) -> None:
        replacement = self.kind.on_action(episode)
        if replacement is not None:
            episode.replace_turn(replacement.insertion, replacement.keep)
        insertions = self.kind.next_turn(episode)
        if insertions is None:
            episode.status = RolloutStatus.FINISHED
            return
        if episode.turns >= self.kind.max_turns:
            episode.status = RolloutStatus.TRUNCATED_TURNS
            return
        for insertion in insertions:
            episode.append(insertion)
        rewritten = self.kind.context_filter(episode)
        if rewritten is not None:
            episode.begin_segment(rewritten)

    def _finish(self, episode: Episode, frames: tuple[ImageFrame, ...]) -> Rollout:
        assert episode.status is not None
        text = self.processor.decode(episode.last_turn)
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
            think_tokens=len(self.processor.encode(think)) if think else 0,
        )
