"""Supervised fine-tuning: what is written as the target, and that learning it is learning the answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import learner

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import SFTConfig
from groundrl.learner.learner import Learner
from groundrl.learner.objective import SFTObjective
from groundrl.losses.config import Normalisation
from groundrl.models.load import Policy
from groundrl.parsing.answer import parse_answer
from groundrl.parsing.status import ParseStatus
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.single_turn import SingleTurn
from groundrl.training.clock import StageClock
from groundrl.training.sft import SFT
from groundrl.types import Task


def method(policy: Policy, reward: str, batch_size: int = 8) -> SFT:
    config = compose_run(["scale=tiny", f"reward={reward}"])
    source = config.dataset.build(Split.TRAIN)
    engine = ScriptedEngine(lambda request, number, index: "", policy.processor)
    collector = Collector(engine, policy.processor, config.prompt.build(), SingleTurn())
    return SFT(SFTConfig(batch_size=batch_size), sampler=Sampler(source, 0), collector=collector)


@pytest.mark.parametrize("reward", ["iou", "ap"])
def test_the_target_is_the_truth_behind_an_empty_think_block(tiny_policy, reward) -> None:
    made = method(tiny_policy, reward)
    processor = tiny_policy.processor
    source = made.sampler.source
    gathered = made.gather(0, StageClock())
    assert made.sampler.position == 8
    assert len(gathered.experience) == 8
    assert gathered.tokens == sum(len(row.row.completion) for row in gathered.experience)
    assert not gathered.scored
    for number, row in enumerate(gathered.experience):
        sample = source.sample(number)
        ids = row.row.completion
        assert ids.dtype == np.int64
        assert int(ids[-1]) == processor.tokenizer.eos_token_id
        assert int((ids == ids[-1]).sum()) == 1
        text = processor.decode(ids)
        assert text.startswith("<think></think><answer>")
        read = parse_answer(text, sample.task, truncated=False)
        # 112 px images are not resized, so the model's space is the original's
        assert [box.xyxy for box in read.boxes] == [box.xyxy for box in sample.truth.boxes]
        if sample.task is Task.ovd:
            assert [box.label for box in read.boxes] == [box.label for box in sample.truth.boxes]
        assert (read.status is ParseStatus.OK) == bool(sample.truth.boxes)
        assert row.selected.all()
        assert np.isnan(row.behaviour_logprobs).all()
        assert row.rollout == number
        assert (sample.question or sample.targets[0]) in processor.decode(row.row.prompt)


def supervised(policy: Policy, lr: float) -> Learner:
    return learner(
        policy.model,
        policy.processor,
        objective=SFTObjective(),
        normalisation=Normalisation.token_mean,
        constant_length=1,
        lr=lr,
    )


def test_the_loss_is_the_cross_entropy_of_all_target_tokens(fresh_policy) -> None:
    """Against the model's own loss, rows one by one, weighted by their length."""
    rows = method(fresh_policy, "iou", 4).gather(0, StageClock()).experience
    metrics = supervised(fresh_policy, 0.0).step(rows)
    model = fresh_policy.model
    total, count = 0.0, 0
    for row in rows:
        ids = torch.from_numpy(np.concatenate([row.row.prompt, row.row.completion]))[None]
        labels = ids.clone()
        labels[:, : len(row.row.prompt)] = -100
        with torch.no_grad():
            logits = model(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == fresh_policy.processor.image_id).int(),
                pixel_values=torch.from_numpy(row.row.images[0].patches),
                image_grid_thw=torch.tensor([row.row.images[0].grid_thw]),
            ).logits
        logits[..., list(fresh_policy.processor.banned_ids)] = float("-inf")
        own = torch.nn.functional.cross_entropy(
            logits[0, :-1], labels[0, 1:], ignore_index=-100, reduction="sum"
        )
        total += float(own)
        count += len(row.row.completion)
    assert metrics["learner/loss"] == pytest.approx(total / count, rel=1e-5)
    assert metrics["learner/nll"] == pytest.approx(total / count, rel=1e-5)


def test_repeating_a_batch_learns_it(fresh_policy) -> None:
    rows = method(fresh_policy, "iou").gather(0, StageClock()).experience
    made = supervised(fresh_policy, 3e-3)
    losses = [made.step(rows)["learner/loss"] for _ in range(6)]
    assert losses[-1] < 0.7 * losses[0]


def test_a_resumed_method_goes_on_with_the_next_samples(tiny_policy) -> None:
    first = method(tiny_policy, "iou")
    first.gather(0, StageClock())
    second = method(tiny_policy, "iou")
    second.load(first.state())
    a, b = first.gather(1, StageClock()), second.gather(1, StageClock())
    assert [row.row.completion.tolist() for row in a.experience] == [
        row.row.completion.tolist() for row in b.experience
    ]
