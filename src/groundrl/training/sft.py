"""Supervised fine-tuning on the same data and evaluation: the truth written as an answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import SFTConfig
from groundrl.learner.experience import Experience
from groundrl.models.forward import Row
from groundrl.rollout.collect import Collector
from groundrl.training.clock import StageClock
from groundrl.training.method import Gathered, Method
from groundrl.training.truth import truth_text
from groundrl.world import World


class SFT(Method):
    """Gathers prompts with their true answers, behind the think block that the configuration says."""

    def __init__(
        self, config: SFTConfig, *, sampler: Sampler, collector: Collector, world: World | None = None
    ) -> None:
        self.config = config
        self.world = world or World()
        self.sampler = sampler
        self.collector = collector

    def gather(self, step: int, clock: StageClock) -> Gathered:
        with clock.stage("data"):
            samples = self.sampler.next(self.config.batch_size // self.world.size)
            contexts = self.collector.contexts(samples)
            processor = self.collector.processor
            experience: list[Experience] = []
            for number, (sample, context) in enumerate(zip(samples, contexts, strict=True)):
                frames = tuple(image.frame for image in context.images)
                text = truth_text(sample, frames, processor.family.coordinate_space, self.config.think)
                ids = np.append(processor.encode(text), processor.tokenizer.eos_token_id)
                experience.append(
                    Experience(
                        row=Row(prompt=context.ids, images=context.images, completion=ids.astype(np.int64)),
                        selected=np.ones(len(ids), dtype=bool),
                        advantage=0.0,
                        behaviour_logprobs=np.full(len(ids), np.nan, dtype=np.float32),
                        rollout=number,
                    )
                )
        tokens = sum(self.world.gather(sum(len(entry.row.completion) for entry in experience)))
        metrics = {"data/target_tokens_mean": tokens / self.config.batch_size}
        return Gathered(experience=experience, metrics=metrics, tokens=tokens)

    def state(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.sampler.load(state["sampler"])
