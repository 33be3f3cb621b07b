"""Grades generated and mutated answers under every reward option, looking for one that is not survived.

Each answer goes through every rubric that can be composed, as published and as released where a term has
both, with salvage on and off, finished or cut off. Nothing may raise; totals must be finite; the same answer
graded twice gives the same breakdown; parsing time must grow linearly with the text. The first answer that
breaks a rule is printed and saved, and the exit code is not 0.

    python -m scripts.fuzz_rewards [--answers 100000] [--seed 0] [--first 0]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from omegaconf.errors import InterpolationToMissingValueError

from groundrl.config.compose import compose_run
from groundrl.config.repo import groups
from groundrl.evaluation.attack_scenes import make_scenes
from groundrl.parsing.answer import parse_answer
from groundrl.parsing.config import ParsingConfig
from groundrl.rewards.base import Compat
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    RewardBreakdown,
    Rollout,
    RolloutStatus,
    Sample,
    Task,
    Truth,
)
from scripts.fuzz_answers import answer

SAVED = Path("outputs/fuzz-rewards.json")
FRAMES = (
    ImageFrame(original=(640, 480), processed=(644, 476)),
    ImageFrame(original=(1000, 600), processed=(700, 420)),
)
ANSWERS = {
    Task.mcq: ("B", "cat"),
    Task.yes_no: ("yes", "No."),
    Task.numeric: ("12", "0", "3/4", "many"),
    Task.text: ("a red car", "x^2", "12"),
    Task.region_label: ("dog", "Café"),
}
SCENES = 60
GROWTH = 8
MOST_GROWTH = 3 * GROWTH
LINEAR = (
    "[", "]", "{", '"', '\\"', "\\", '"\\', "[{", "[[]", "`", "```\n", "```json\n", "<answer>", "<think", "9",
    "-", "1e", " ", "\n", "\x00", "\u0301", "\ud800", "no ", "A ", "\\boxed{", "[1,2,3,4],",
    '{"bbox_2d":[1,2,3,4],',
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One rubric to grade with."""

    name: str
    salvage: bool
    rubric: Rubric


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer to grade."""

    index: int
    sample: Sample
    rollout: Rollout
    salvage: bool

    def save(self, variant: str) -> None:
        """Print the answer and write what is needed to replay it."""
        record = {
            "index": self.index,
            "variant": variant,
            "salvage": self.salvage,
            "task": self.sample.task.value,
            "status": self.rollout.status.value,
            "space": self.rollout.coordinate_space.value,
            "truth": repr(self.sample.truth),
            "text": self.rollout.text,
        }
        SAVED.parent.mkdir(parents=True, exist_ok=True)
        SAVED.write_text(
            json.dumps(record, indent=1) + "\n", encoding="utf-8"
        )  # ASCII: surrogates are escaped
        print(
            f"answer {self.index} under {variant}, saved to {SAVED}: {self.rollout.text[:2000]!r}", flush=True
        )


def variants() -> list[Variant]:
    """All rubrics that the reward group offers; those that need a setting are named and left out."""
    found: list[Variant] = []
    for option in groups()["reward"]:
        try:
            config = compose_run([f"reward={option}"]).reward
        except InterpolationToMissingValueError as error:  # the user must set something
            print(f"reward={option} is left out: {' '.join(str(error).split())[:120]}")
            continue
        both = any(hasattr(term, "compat") for term in config.terms.values())
        for compat in tuple(Compat) if both else (None,):
            for term in config.terms.values():
                if compat is not None and hasattr(term, "compat"):
                    setattr(term, "compat", compat)  # noqa: B010  (not every term has it)
            for salvage in (False, True):
                rubric = replace(config, parsing=ParsingConfig(salvage=salvage)).build()
                name = option if compat in (None, Compat.paper) else f"{option} ({compat})"
                found.append(Variant(name=name, salvage=salvage, rubric=rubric))
    return found


def make_samples() -> dict[Task, list[Sample]]:
    """Samples of every task, positives and negatives."""
    samples = {
        task: [one.sample for one in make_scenes(task, SCENES, seed=1)] for task in (Task.rec, Task.ovd)
    }
    samples[Task.point] = [replace(one, task=Task.point) for one in samples[Task.ovd]]
    for task, answers in ANSWERS.items():
        question = "Which?\nA. dog\nB. cat\nC. none" if task is Task.mcq else "What?"
        samples[task] = [
            Sample(id=text, task=task, images=(), truth=Truth(answer=text), question=question)
            for text in answers
        ]
    return samples


def make_case(index: int, seed: int, samples: dict[Task, list[Sample]]) -> Case:
    """Answer `index` of `seed`: a function of both."""
    rng = random.Random(f"{seed}/{index}")
    sample = rng.choice(samples[rng.choice((Task.rec, Task.ovd, Task.ovd, *Task))])
    rollout = written_rollout(
        sample.id,
        answer(sample, rng),
        FRAMES[: rng.choice((1, 2))],
        space=rng.choice(tuple(CoordinateSpace)),
        status=rng.choice((RolloutStatus.FINISHED, RolloutStatus.TRUNCATED_LENGTH)),
        tokens=rng.choice((0, 1, 100, 1024, 5000)),
    )
    return Case(index=index, sample=sample, rollout=rollout, salvage=rng.random() < 0.5)


def check(case: Case, variant: Variant) -> RewardBreakdown:
    """Grade twice. Raises AssertionError on a total that is not finite or not the same; saves the case then,
    and also when a term raises."""
    survived = False
    try:
        first = variant.rubric.score(case.rollout, case.sample)
        assert first.total is None or math.isfinite(first.total), f"total {first.total}"
        again = variant.rubric.score(case.rollout, case.sample)
        assert first == again, f"graded twice: {first} and {again}"
        survived = True
    finally:
        if not survived:
            case.save(variant.name)
    return first


def fuzz(answers: int, *, seed: int, first: int = 0) -> Counter[str]:
    """Grade answers `first` to `first + answers`; counts of parse statuses, gradings and missing rewards."""
    samples, rubrics = make_samples(), variants()
    counts: Counter[str] = Counter()
    for index in range(first, first + answers):
        case = make_case(index, seed, samples)
        status = ""
        for variant in rubrics:
            if variant.salvage is case.salvage and variant.rubric.covering(case.sample.task):
                breakdown = check(case, variant)
                status = breakdown.parse_status
                counts["gradings"] += 1
                counts["missing"] += breakdown.total is None
        counts[f"parse/{status}"] += 1
        counts["answers"] += 1
    return counts


def _parse_seconds(text: str, task: Task) -> float:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        parse_answer(text, task, truncated=True, parsing=ParsingConfig(salvage=True))
        best = min(best, time.process_time() - start)
    return best


def growth(tasks: Sequence[Task] = tuple(Task), *, size: int = 20_000) -> tuple[float, str]:
    """The worst factor by which parsing time grows when a text grows by `GROWTH`, and where."""
    worst, where = 0.0, ""
    for task in tasks:
        for part in LINEAR:
            short, long = (
                _parse_seconds(f"<think>t</think><answer>{part * (count // len(part))}", task)
                for count in (size, size * GROWTH)
            )
            closed = [
                _parse_seconds(f"<answer>[{part * (count // len(part))}</answer>", task)
                for count in (size, size * GROWTH)
            ]
            for before, after in ((short, long), closed):
                if after > 0.005 and after / max(before, 1e-4) > worst:  # below is noise
                    worst, where = after / max(before, 1e-4), f"{task}, {part!r}"
    return worst, where


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="grade random answers under every reward option")
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first answer, to replay one")
    options = parser.parse_args(words)
    start = time.perf_counter()
    counts = fuzz(options.answers, seed=options.seed, first=options.first)
    seconds = time.perf_counter() - start
    for name, count in sorted(counts.items()):
        print(f"{count:10d}  {name}")
    print(f"{seconds:.0f} s, {counts['answers'] / seconds:.0f} answers/s, nothing raised")
    factor, where = growth()
    print(f"parsing time grows at most {factor:.1f}-fold for {GROWTH}-fold text ({where})")
    return 0 if factor <= MOST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
