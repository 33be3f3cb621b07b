"""The verification loop against its closed form (SVR-R1): a scripted policy and verifier of known rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.rollout.test_self_verify import SAMPLING, done, sample, settings

from groundrl.models.processor import Processor
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Completion, Request, Sampling
from groundrl.types import Role


def closed_form(a: float, tpr: float, fpr: float, rounds: int) -> tuple[float, float]:
    """Accuracy and expected answers of the loop for independent answers and verdicts."""
    s = a * tpr + (1 - a) * fpr
    accuracy = sum((1 - s) ** i * a * tpr for i in range(rounds - 1)) + (1 - s) ** (rounds - 1) * a
    return accuracy, sum((1 - s) ** i for i in range(rounds))


ORACLE = [
    # a, TPR, FPR, rounds -> accuracy, answers, turns (hand-worked); episodes
    (0.5, 1.0, 0.0, 3, 0.875, 1.75, 3.25, 3000),  # 3.25 turns: 1.75 answers + 1.5 verdicts
    (0.5, 1.0, 1.0, 3, 0.5, 1.0, 2.0, 1000),
    (0.5, 0.5, 0.5, 3, 0.5, 1.75, 3.25, 3000),
    (0.5, 0.9, 0.2, 3, 0.75375, 1.6525, 3.1025, 20_000),
    (0.5, 0.9, 0.2, 5, 0.805134, None, None, 3000),
    (0.05, 0.9, 0.2, 3, 0.108686, 2.350, None, 3000),
]


@pytest.mark.parametrize(("a", "tpr", "fpr", "rounds", "accuracy", "answers", "turns", "episodes"), ORACLE)
def test_the_loop_agrees_with_the_closed_form(
    tiny_policy,
    a: float,
    tpr: float,
    fpr: float,
    rounds: int,
    accuracy: float,
    answers: Any,
    turns: Any,
    episodes: int,
) -> None:
    """Episodes of a scripted policy, right with probability a, and a verifier of known rates."""
    exact, expected = closed_form(a, tpr, fpr, rounds)
    assert exact == pytest.approx(accuracy, abs=1e-6)
    if answers is not None:
        assert expected == pytest.approx(answers, abs=5e-4)
    processor = tiny_policy.processor
    rng = np.random.default_rng(3)
    ids = {word: np.append(processor.encode(word), 600).astype(np.int64) for word in "RW"}
    ids |= {word: np.append(processor.encode(f"<{word}>"), 600).astype(np.int64) for word in ("YES", "NO")}
    right = {int(ids["R"][0]): True, int(ids["W"][0]): False}

    class Oracle:
        """Knows the last answer by its first token, which stands before the request to verify."""

        latest: dict[int, bool]

        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            flat = [(request, seed) for request in requests for seed in request.seeds]
            if sampling.max_new_tokens == SAMPLING.max_new_tokens:
                words = np.where(rng.random(len(flat)) < a, "R", "W").tolist()
            else:
                marks = [next(right[t] for t in request.prompt_ids[::-1].tolist() if t in right)
                         for request, _ in flat]  # fmt: skip
                chance = np.where(marks, tpr, fpr)
                words = np.where(rng.random(len(flat)) < chance, "YES", "NO").tolist()
            said = iter(words)
            return [[done(ids[next(said)], True, 24) for _ in request.seeds] for request in requests]

    class Short(Processor):
        """One token instead of the wording, so that 20,000 conversations take seconds."""

        def reply(self, message: Any, images: Any = (), *, ended: bool = True) -> Any:
            return np.array([601], dtype=np.int64)

    short = Short(processor.tokenizer, processor.image_processor, processor.family)
    kind = settings(f"rollout.verify.limit={rounds}").build_kind(short)
    collector = Collector(Oracle(), short, PromptConfig().build(), kind)  # pyright: ignore[reportArgumentType]
    rollouts = collector.collect([replace(sample(), images=())], episodes, SAMPLING, seed=(0,))
    won = np.array([rollout.text == "R" for rollout in rollouts], dtype=float)
    assert abs(won.mean() - exact) < 3 * max(won.std(), 0.01) / episodes**0.5
    made = np.array([sum(said.role is Role.STUDENT for said in one.said) or 1 for one in rollouts])
    assert abs(made.mean() - expected) < 3 * max(made.std(), 0.01) / episodes**0.5
    taken = np.array([rollout.turns for rollout in rollouts])
    if turns is not None:
        assert abs(taken.mean() - turns) < 3 * max(taken.std(), 0.01) / episodes**0.5
