"""Steps of our GRPO on a folder: the same work as trl_step.py (benchmarks/grpo_step.py starts this)."""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from measure import Peak, picture, question

from groundrl.config.compose import compose_run
from groundrl.data.base import SampleSource
from groundrl.data.sampler import Sampler
from groundrl.learner.learner import Learner, Plan
from groundrl.learner.logprobs import Scorer
from groundrl.learner.objective import PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.losses.config import Normalisation
from groundrl.models.load import load_policy
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.grader import Grader
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.collect import Collector
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO
from groundrl.types import LabeledBox, Rollout, Sample, Scored, Task, Truth


class Pictures:
    """The prompts of the comparison."""

    def __init__(self, prompts: int, size: int) -> None:
        self.size: int | None = prompts
        self.side = size

    def sample(self, index: int) -> Sample:
        truth = Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10)),))
        image = picture(index, self.side)
        return Sample(id=str(index), task=Task.rec, images=(image,), truth=truth, question=question())

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return "pictures"


class Length:
    """The reward of the comparison: length of the text modulo 7."""

    tasks = frozenset({Task.rec})
    needs = ()

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        return Scored(float(len(rollout.text) % 7))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    for name in ("prompts", "group", "tokens", "size", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--words", nargs="*", default=[], help="further settings")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = compose_run(
        [
            f"model.path={options.folder}",
            f"model.max_pixels={max(3136, options.size**2)}",
            f"rollout.max_new_tokens={options.tokens}",
            f"algorithm.prompts_per_step={options.prompts}",
            f"algorithm.group_size={options.group}",
            "algorithm.lr=1e-5",
            *options.words,
        ]
    )
    algorithm = config.algorithm
    policy = load_policy(config.model)
    policy.processor.eos_ids = frozenset()  # every completion is as long as asked for
    source: SampleSource = Pictures(options.prompts, options.size)
    collector = Collector(
        config.rollout.engine.build(policy.model, policy.processor),
        policy.processor,
        config.prompt.build(),
        config.rollout.build_kind(policy.processor),
    )
    method = GRPO(
        algorithm,  # type: ignore[arg-type]
        sampler=Sampler(source, 0),
        collector=collector,
        grader=Grader(Rubric({"length": Length()}, {"length": 1.0}, task=Task.rec)),
        advantage=algorithm.advantage.build(),  # type: ignore[attr-defined]
        sampling=config.rollout.sampling(),
        seed=0,
    )
    processor = policy.processor
    learner = Learner(
        policy.model,
        Scorer(temperature=1.0, banned_ids=processor.banned_ids, pad_id=processor.pad_id),
        PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0),
        Plan(
            num_steps=10_000,
            lr=1e-5,
            num_iterations=1,
            mini_batches=1,
            normalisation=Normalisation.sequence_mean,
            constant_length=options.tokens,
        ),
        algorithm.optim,  # type: ignore[attr-defined]
    )
    clock = StageClock()
    seconds: list[float] = []
    learning: list[float] = []
    peak = Peak()
    peak.begin()
    for step in range(options.steps + 1):
        start = time.process_time()
        gathered = method.gather(step, clock)
        assert gathered.tokens == options.prompts * options.group * options.tokens
        middle = time.process_time()
        learner.step(gathered.experience)
        collector.engine.sync_weights(policy.model)
        seconds.append(time.process_time() - start)
        learning.append(time.process_time() - middle)
    generating = [whole - part for whole, part in zip(seconds, learning, strict=True)]
    parts = {"step": seconds[1:], "generate": generating[1:], "learn": learning[1:]}
    print(json.dumps(parts | peak.end()))


if __name__ == "__main__":
    main()
