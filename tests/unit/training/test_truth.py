"""The check at the start that writing the truth is paid."""

from __future__ import annotations

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.errors import UserError
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.rubric import Rubric
from groundrl.training.truth import check_truth_is_paid, truth_text
from groundrl.types import CoordinateSpace, ImageFrame, LabeledBox, Sample, Task, Truth

FRAME = ImageFrame(original=(100, 200), processed=(56, 112))


def rec() -> Sample:
    box = LabeledBox(xyxy=(10, 20, 50, 100), label="red circle")
    picture = Image.new("RGB", FRAME.original)
    return Sample(id="r", task=Task.rec, images=(picture,), truth=Truth(boxes=(box,)), question="red circle")


def ovd(*boxes: LabeledBox) -> Sample:
    picture = Image.new("RGB", FRAME.original)
    return Sample(id="o", task=Task.ovd, images=(picture,), truth=Truth(boxes=boxes), targets=("red circle",))


@pytest.fixture(scope="module")
def iou() -> Rubric:
    return compose_run([]).reward.build()


@pytest.fixture(scope="module")
def odlength() -> Rubric:
    return compose_run(["reward=odlength"]).reward.build()


def test_the_truth_is_written_in_the_models_space() -> None:
    text = truth_text(rec(), (FRAME,), CoordinateSpace.REL1000)
    assert "[100, 100, 500, 500]" in text
    assert "[10, 20, 50, 100]" in truth_text(rec(), (FRAME,), CoordinateSpace.PIXEL_ORIGINAL)
    assert "None" in truth_text(ovd(), (FRAME,), CoordinateSpace.PIXEL_RESIZED)


@pytest.mark.parametrize("space", list(CoordinateSpace))
def test_every_space_is_paid(space: CoordinateSpace, iou: Rubric, odlength: Rubric) -> None:
    check_truth_is_paid([rec()], [(FRAME,)], space, iou)
    box = LabeledBox(xyxy=(10, 20, 50, 100), label="red circle")
    check_truth_is_paid([ovd(box), ovd()], [(FRAME,)] * 2, space, odlength)


def test_a_reward_that_does_not_pay_the_truth_stops_the_run() -> None:
    # 56 x 112 pixels cannot hold the box exactly: its rounded truth has an IoU of 0.978
    strict = IouConfig(binary_at=0.99).build()
    rubric = Rubric({"iou": strict}, {"iou": 1.0}, task=Task.rec)
    check_truth_is_paid([rec()], [(FRAME,)], CoordinateSpace.PIXEL_ORIGINAL, rubric)
    with pytest.raises(UserError) as error:
        check_truth_is_paid([rec()], [(FRAME,)], CoordinateSpace.PIXEL_RESIZED, rubric)
    message = str(error.value)
    assert message.startswith("reward: the truth of sample r, written as ")
    assert "earns 0, no more than an unreadable answer (0)" in message
    assert "the coordinate space (pixel_resized)" in message


def test_a_format_reward_alone_still_pays_the_truth(odlength: Rubric) -> None:
    box = LabeledBox(xyxy=(10, 20, 50, 100), label="red circle", image=0)
    check_truth_is_paid([ovd(box)], [(FRAME,)], CoordinateSpace.REL1000, odlength)
    punished = Rubric({"format": FormatConfig().build()}, {"format": -1.0}, task=Task.ovd)
    with pytest.raises(UserError, match="earns -1, no more than an unreadable answer"):
        check_truth_is_paid([ovd(box)], [(FRAME,)], CoordinateSpace.REL1000, punished)
