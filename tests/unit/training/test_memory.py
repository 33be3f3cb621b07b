"""The estimate before the first step: a case worked out by hand, counts of a real batch, and the warning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.unit.models.test_plan import load, sizes

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.sampler import Sampler
from groundrl.models.plan_memory import GIB, MIB
from groundrl.rollout.collect import Collector
from groundrl.training.memory import Counted, Estimate, available, estimate, loads, memory_fact
from groundrl.world import World

BASE = load(ranks=1, weight_bytes=4, checkpointing=False, reference=True, drawn=7)
ROWS = [
    Counted(prompt=20, completion=5, images={1: 9}),
    Counted(prompt=20, completion=5, images={1: 9}),
    Counted(prompt=30, completion=5, images={2: 9, 3: 6}),
    Counted(prompt=11, completion=5, images={}),
    Counted(prompt=12, completion=5, images={}),
]


def test_micro_batches_are_padded_and_their_pictures_counted_once() -> None:
    found = [
        (one.rows, one.prompt, one.completion, one.images * one.image_tokens)
        for one in loads(BASE, ROWS, 2, shares=False)
    ]
    assert found == [(2, 20, 5, 9), (2, 30, 5, 15), (1, 12, 5, 0)]


def test_a_case_worked_out_by_hand() -> None:
    """sizes(): 8000 parameters, 6000 learn; float32, one process, a reference."""
    got = estimate(sizes(), loads(BASE, ROWS, 2, shares=False))
    always = 8000 * 4 + 6000 * 4 + 6000 * 8 + 8000 * 4  # weights, gradients, moments, reference
    block = 4 * 16 + 3 * 16 + 4 * 4 + 4 * 40  # 288
    # the second micro-batch: 2 rows of 35 tokens, 10 layers; 15 image tokens of 4 patches, 3 vision blocks
    decoder = 4 * 70 * 10 * block
    vision = 4 * 60 * 3 * (11 * 8 + 4 * 20)
    logits = 2 * 4 * 2 * 5 * 100  # ten tokens are one chunk
    assert got.bytes == always + decoder + vision + logits == 136_000 + 806_400 + 120_960 + 8_000
    assert [item.name for item in got.items][:3] == [
        "decoder activations",
        "vision activations",
        "AdamW moments",
    ]
    # with one row at a time the longest row alone is the peak
    alone = estimate(sizes(), loads(BASE, ROWS, 1, shares=False))
    assert alone.bytes == always + decoder / 2 + vision + logits / 2
    # 7 completions at 30 + 5 tokens: drawing is less than learning and is not added to it
    drawing = 4 * 2 * 10 * 4 * 7 * 35
    assert drawing < decoder
    many = estimate(sizes(), loads(replace(BASE, drawn=700), ROWS, 2, shares=False))
    assert many.bytes == always + 100 * drawing
    copied = loads(replace(BASE, engine_parts=1), ROWS, 2, shares=False)
    assert estimate(sizes(), copied).bytes == got.bytes + 8000 * 4


def test_a_prompt_that_rows_share_counts_once() -> None:
    """Three rows of one prompt: 20 + 3 x 5 tokens instead of 3 x 25."""
    same = [Counted(prompt=20, completion=5, images={1: 9})] * 3
    (shared,), (apart,) = (loads(BASE, same, 4, shares=shares) for shares in (True, False))
    assert (shared.rows, shared.prompts, apart.prompts) == (3, 1, 3)
    block = 4 * 16 + 3 * 16 + 4 * 4 + 4 * 40
    assert estimate(sizes(), [apart]).bytes - estimate(sizes(), [shared]).bytes == 4 * 40 * 10 * block


def test_what_to_lower() -> None:
    got = estimate(sizes(), loads(BASE, ROWS, 2, shares=False))
    assert got.warning(got.bytes, "the machine") is None
    text = got.warning(got.bytes - 1, "the machine") or ""
    assert text.startswith("training may need about 1 MiB, the machine has 1 MiB; most of it is decoder")
    assert "decoder activations 1 MiB: lower algorithm.optim.micro_batch, or use model.gradient_check" in text
    assert "vision activations 0 MiB: lower model.max_pixels" in text
    heavy = estimate(sizes(parameters=8 * 10**9, trainable=8 * 10**9), loads(BASE, ROWS, 2, shares=False))
    text = heavy.warning(GIB, "the device cuda:0") or ""
    # 8e9 x (4 + 4 + 8 + 4) = 160e9 bytes = 149.0 GiB
    assert text.startswith(
        "training may need about 149.0 GiB, the device cuda:0 has 1.0 GiB; most of it is AdamW"
    )
    assert "use more GPUs (torchrun), or let fewer parameters learn (model.lora.rank=64)" in text
    assert "plan_ranks" not in text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0.4 * GIB, "about 0.4 GiB"), (35 * MIB, "about 35 MiB"), (93.26 * GIB, "about 93.3 GiB")],
)
def test_the_amount_in_words(size: float, text: str) -> None:
    assert Estimate(bytes=size, items=[]).text() == text


def fact(policy: Any, *words: str, world: World | None = None) -> str | None:
    config = compose_run(list(words))
    source = config.dataset.build(Split.TRAIN)
    engine: Any = None
    collector = Collector(
        engine, policy.processor, config.prompt.build(), config.rollout.build_kind(policy.processor)
    )
    return memory_fact(config, policy, Sampler(source, 0), collector, world or World())


def test_the_fact_follows_the_settings_of_the_run(tiny_policy) -> None:
    def mib(*words: str) -> int:
        return int((fact(tiny_policy, *words) or "").split()[1])

    group = "algorithm.prompts_per_step=2", "algorithm.group_size=8"
    whole = mib(*group)
    assert mib(*group, "algorithm.optim.micro_batch=4") < whole
    assert mib(*group, "algorithm.mini_batches=4") == mib(*group, "algorithm.optim.micro_batch=4")
    assert mib(*group, "rollout.max_new_tokens=60") > mib(*group, "rollout.max_new_tokens=50") > whole
    assert mib(*group, "algorithm/kl=k3") == pytest.approx(whole + 783_296 * 4 / MIB, abs=1)
    assert mib("algorithm=sft", "algorithm.batch_size=4") > 0
    assert fact(tiny_policy, "algorithm=eval_only") is None


def test_too_much_is_warned_of(tiny_policy, monkeypatch, caplog) -> None:
    assert fact(tiny_policy) is not None
    assert caplog.messages == []
    monkeypatch.setattr(
        "groundrl.training.memory.available", lambda device, world: (float(MIB), "the machine")
    )
    text = fact(tiny_policy) or ""
    (message,) = caplog.messages
    assert message.startswith(f"training may need {text}, the machine has 1 MiB; most of it is ")
    assert "algorithm.optim.micro_batch" in message


def test_a_machine_is_shared_by_its_processes() -> None:
    alone, where = available(torch.device("cpu"), World())
    assert where == "the machine"
    assert alone > GIB / 4
    half, where = available(torch.device("cpu"), World(rank=0, size=2))
    assert half == alone / 2
    assert where == "the machine for each of 2 processes"
