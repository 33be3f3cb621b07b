"""Known kinds of bug about batches: their size, prompts that are too long, images of several samples, one
resize, and evaluations that cannot be repeated."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train
from tests.bugs.helpers import boxed, rubric, values
from tests.cli import Cli, make_cli
from tests.tiny import picture, scorer

from groundrl.advantages.group_norm import GroupNormConfig
from groundrl.config.repo import resolve
from groundrl.data.sampler import Sampler
from groundrl.errors import UserError
from groundrl.learner.algorithms import GRPOConfig
from groundrl.models.forward import Row
from groundrl.models.load import Policy, load_processor
from groundrl.models.processor import Processor
from groundrl.prompting.prompt import PromptConfig
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.single_turn import SingleTurn
from groundrl.run_config import RunConfig
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO
from groundrl.training.truth import check_samples
from groundrl.types import CoordinateSpace, LabeledBox, Sample, Size, Task, Truth
from groundrl.world import World

RESIZED = CoordinateSpace.PIXEL_RESIZED


def sample(name: str, *sizes: Size, seed: int = 0) -> Sample:
    return Sample(
        id=name,
        task=Task.rec,
        images=tuple(picture(size, seed + n) for n, size in enumerate(sizes)),
        truth=Truth(boxes=(LabeledBox(xyxy=(0, 0, 28, 28)),)),
        question="red circle",
    )


@dataclass
class Source:
    size: int | None

    def sample(self, index: int) -> Sample:
        return sample(str(index), (56, 56), seed=index)

    def tasks(self) -> frozenset[Task]:
        return frozenset({Task.rec})

    def fingerprint(self) -> str:
        return "numbers"


def scripted(processor: Processor) -> Collector:
    """Answers that are right for even completions only."""
    engine = ScriptedEngine(
        lambda request, number, index: boxed(0, 0, 28, 28 if index % 2 == 0 else 14), processor
    )
    return Collector(engine, processor, PromptConfig().build(), SingleTurn())


def method(policy: Policy, samples: int, batch: int) -> GRPO:
    return GRPO(
        GRPOConfig(prompts_per_step=batch, group_size=4, num_steps=10),
        sampler=Sampler(Source(samples), seed=3),
        collector=scripted(policy.processor),
        grader=Grader(rubric("reward=iou")),
        advantage=GroupNormConfig().build(),
        sampling=Sampling(temperature=1.0, max_new_tokens=200),
        seed=0,
        world=World(),
    )


def drawn(run: GRPO, steps: int) -> list[str]:
    """The sample of each group of some batches; every group is whole and has its own baseline."""
    out: list[str] = []
    for step in range(steps):
        gathered = run.gather(step, StageClock())
        names = [entry.sample.id for entry in gathered.scored]
        assert len(names) == len(gathered.experience) == 4 * run.config.prompts_per_step
        assert [entry.rollout.group for entry in gathered.scored] == [n // 4 for n in range(len(names))]
        for start in range(0, len(names), 4):
            assert len(set(names[start : start + 4])) == 1
            advantages = [row.advantage for row in gathered.experience[start : start + 4]]
            # rewards 1, 1/2, 1, 1/2: equal and opposite in pairs
            assert advantages[0] == advantages[2] == -advantages[1] == -advantages[3] > 0
            out.append(names[start])
    return out


def test_b33_seven_samples_in_batches_of_six_are_all_seen_equally_often(tiny_policy: Policy) -> None:
    """A tail that is dropped, or a group that is cut by the end of the data (VLM-R1 #57, #141)."""
    seen = drawn(method(tiny_policy, 7, 6), 7)
    # 7 batches of 6 are 6 passes over 7 samples, and every pass is a permutation
    for start in range(0, 42, 7):
        assert set(seen[start : start + 7]) == set("0123456")


def test_b33_sibling_fewer_samples_than_a_batch_and_a_batch_of_one(tiny_policy: Policy) -> None:
    """A data set smaller than prompts_per_step, and the smallest batch."""
    assert Counter(drawn(method(tiny_policy, 2, 6), 1)) == {"0": 3, "1": 3}
    assert set(drawn(method(tiny_policy, 3, 1), 3)) == set("012")


def limited(policy: Policy, limit: int | None) -> Processor:
    own = policy.processor
    return Processor(own.tokenizer, own.image_processor, own.family, context_length=limit)


def test_b38_a_prompt_beyond_the_context_is_named_before_training(tiny_policy: Policy) -> None:
    """Image tokens cut to a prompt limit, so that features do not match (verl #3469, TRL #5904)."""
    target = sample("a.jsonl:7", (112, 112), (56, 84))
    (context,) = scripted(limited(tiny_policy, None)).contexts([target])
    # 112 / 28 = 4: 16 tokens; 2 x 3: 6 tokens
    assert int((context.ids == tiny_policy.processor.image_id).sum()) == 22
    length = len(context.ids)
    scripted(limited(tiny_policy, length + 1)).contexts([target])  # room for one token
    expected = (
        rf"sample a\.jsonl:7: the prompt has {length} tokens, 22 of them of 2 images "
        rf"\(112 x 112, 56 x 84\), and the model's context is {length}; lower model\.max_pixels"
    )
    with pytest.raises(UserError, match=expected):
        check_samples([target], scripted(limited(tiny_policy, length)), rubric("reward=iou"), RESIZED)


def test_b38_sibling_the_limit_is_the_checkpoints_and_holds_for_text_alone(
    tiny_config: RunConfig, tiny_policy: Policy
) -> None:
    """A limit nobody reads, and a prompt too long without any image."""
    folder = resolve(tiny_config.model.path)
    assert tiny_policy.processor.context_length == 4096
    own = load_processor(folder, tiny_policy.family, tiny_config.model)
    long = replace(sample("long"), question="red circle " * 5000)
    with pytest.raises(UserError, match=r"sample long: .* 0 of them of 0 images .* context is 4096"):
        scripted(own).contexts([long])


def mixed() -> list[Sample]:
    return [
        sample("one", (84, 140), seed=1),
        sample("two", (112, 112), (56, 84), seed=2),
        sample("none"),
        sample("other", (84, 140), seed=9),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 1, 3, 0)])
def test_b40_every_row_keeps_its_own_pixels_in_engine_and_learner(
    tiny_policy: Policy, exact_policy: Policy, order: tuple[int, ...]
) -> None:
    """Pixel features cut at the wrong places (VLM-R1 #317, TRL #4488). In float64, without slack."""
    policy = replace(tiny_policy, model=exact_policy.model)
    engine = HFEngine(policy.model, policy.processor, max_batch=64)
    collector = Collector(engine, policy.processor, PromptConfig().build(), SingleTurn())
    samples = [mixed()[n] for n in order]
    sampling = Sampling(temperature=1.0, max_new_tokens=6)
    together = collector.collect(samples, 2, sampling, seed=[5])
    alone = [
        rollout
        for place, own in enumerate(samples)
        for rollout in collector.collect([own], 2, sampling, seed=[5], first=place)
    ]
    rows = [row_of(rollout.segments[0]) for rollout in together]
    assert [len(row.images) for row in rows[::2]] == [len(own.images) for own in samples]
    score = scorer(policy.processor)
    with torch.no_grad():
        batch = score(policy.model, rows).logprobs.numpy()
    for place, (row, one, many) in enumerate(zip(rows, alone, together, strict=True)):
        count = len(row.completion)
        assert many.segments[0].response_ids.tolist() == one.segments[0].response_ids.tolist()
        np.testing.assert_allclose(
            many.segments[0].behaviour_logprobs, one.segments[0].behaviour_logprobs, atol=1e-6
        )
        with torch.no_grad():
            single = score(policy.model, [row]).logprobs.numpy()[0, :count]
        np.testing.assert_allclose(batch[place, :count], single, atol=1e-6)
        np.testing.assert_allclose(batch[place, :count], many.segments[0].behaviour_logprobs, atol=1e-6)


def row_of(segment: Any) -> Row:
    return Row(prompt=segment.prompt_ids, images=segment.images, completion=segment.response_ids)


def test_b40_sibling_images_of_equal_size_that_change_places_are_noticed(
    tiny_policy: Policy, exact_policy: Policy
) -> None:
    """The same counts and sizes, so that only the values can tell a row's pixels from its neighbour's."""
    contexts = scripted(tiny_policy.processor).contexts([mixed()[0], mixed()[3]])
    completion = np.arange(5, 11, dtype=np.int64)
    rows = [Row(prompt=c.ids, images=c.images, completion=completion) for c in contexts]
    swapped = [replace(rows[0], images=rows[1].images), replace(rows[1], images=rows[0].images)]
    score = scorer(tiny_policy.processor)
    with torch.no_grad():
        own = score(exact_policy.model, rows).logprobs
        other = score(exact_policy.model, swapped).logprobs
    assert float((own - other).abs().max()) > 1e-4
    # the prompts are equal, so a row is known by its pixels alone
    np.testing.assert_allclose(own.numpy(), other.flip(0).numpy(), atol=1e-6)


@pytest.fixture(scope="module")
def large() -> Sample:
    return replace(sample("large", (4000, 3000)), truth=Truth(boxes=(LabeledBox(xyxy=(0, 0, 2000, 1500)),)))


def test_b45_one_resize_for_engine_learner_and_reward(tiny_policy: Policy, large: Sample) -> None:
    """max_pixels ignored, or an image resized again by the learner (Qwen3-VL #1052, vllm #19789)."""
    seen: list[Any] = []

    def answer(request: Any, number: int, index: int) -> str:
        seen.append(request.images)
        return boxed(0, 0, 126, 84)

    engine = ScriptedEngine(answer, tiny_policy.processor)
    collector = Collector(engine, tiny_policy.processor, PromptConfig().build(), SingleTurn())
    contexts = collector.contexts([large])
    (rollout,) = collector.collect(
        [large], 1, Sampling(temperature=1.0, max_new_tokens=200), seed=[0], contexts=contexts
    )
    # cap 50176: beta = sqrt(12e6 / 50176) = 15.465; 4000 / beta / 28 = 9.2, 3000 / beta / 28 = 6.9
    (frame,) = rollout.frames
    assert (frame.original, frame.processed) == ((4000, 3000), (252, 168))
    (image,) = contexts[0].images
    assert len(image.patches) == (252 // 14) * (168 // 14)
    assert seen[0][0].patches is image.patches is rollout.segments[0].images[0].patches
    assert int((contexts[0].ids == tiny_policy.processor.image_id).sum()) == 9 * 6
    # half of 252 x 168 is half of 4000 x 3000
    graded = rubric("reward=iou").grade(rollout, large)
    assert values(graded)["iou"] == 1


def test_b45_sibling_another_cap_and_images_within_it(
    tiny_config: RunConfig, tiny_policy: Policy, large: Sample
) -> None:
    """The cap of the run, not of the checkpoint; an image below it keeps its size."""
    folder = resolve(tiny_config.model.path)
    small = load_processor(folder, tiny_policy.family, replace(tiny_config.model, max_pixels=12544))
    # beta = sqrt(12e6 / 12544) = 30.93; 4000 / beta / 28 = 4.6, 3000 / beta / 28 = 3.5
    assert small.prepare(large.images[0]).frame.processed == (112, 84)
    assert small.prepare(picture((84, 112), 0)).frame.processed == (84, 112)
    assert tiny_policy.processor.prepare(large.images[0]).frame.processed == (252, 168)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(monkeypatch, capsys)


def evaluated(cli: Cli, folder: Path, *words: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """result.json and the stored answers of an evaluation of the shipped checkpoint."""
    usual = ("debug=smoke", "algorithm=eval_only", "eval.samples=4", "eval.sampled_k=2")
    done = cli(*usual, f"paths.output_dir={folder}", *words, job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    files = sorted((folder / "eval").glob("*.jsonl"))
    stored = {file.name: file.read_bytes() for file in files}
    assert stored
    return json.loads((folder / "result.json").read_text("utf-8")), stored


def test_b59_the_same_checkpoint_measures_the_same_twice(cli: Cli, tmp_path: Path) -> None:
    """Evaluations that cannot be repeated, or do not say of what they are (VLM-R1 #226, #301)."""
    first, answers = evaluated(cli, tmp_path / "a")
    again, same = evaluated(cli, tmp_path / "b")
    assert answers == same
    assert first["eval"] == again["eval"]
    for key in ("config_hash", "heldout_fingerprint", "model_sha256"):
        assert len(first["run"][key]) >= 16
        assert first["run"][key] == again["run"][key]


def test_b59_sibling_another_seed_changes_what_is_drawn_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    """Greedy answers that depend on a seed, or a seed that is not part of the record."""
    first, answers = evaluated(cli, tmp_path / "a")
    other, drawn_anew = evaluated(cli, tmp_path / "b", "eval.seed=21")

    def of(stored: dict[str, bytes], kind: str) -> list[str]:
        (content,) = stored.values()
        return [line for line in content.decode().splitlines() if json.loads(line)["kind"] == kind]

    assert (len(of(answers, "greedy")), len(of(answers, "sampled"))) == (4, 8)
    assert of(answers, "greedy") == of(drawn_anew, "greedy")
    assert of(answers, "sampled") != of(drawn_anew, "sampled")
    measured = [run["eval"]["before"] for run in (first, other)]
    greedy = [{k: v["value"] for k, v in own.items() if k.startswith("greedy/")} for own in measured]
    assert greedy[0] == greedy[1]
    assert first["run"]["config_hash"] != other["run"]["config_hash"]
    assert first["run"]["heldout_fingerprint"] == other["run"]["heldout_fingerprint"]
