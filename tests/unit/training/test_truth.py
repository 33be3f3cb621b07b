"""The check at the start that writing the truth is paid."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.errors import UserError
from groundrl.learner.algorithms import ThinkBlock
from groundrl.parsing.answer import ParseStatus, parse_rollout
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig
from groundrl.rewards.rubric import Rubric
from groundrl.rollout.written import written_rollout
from groundrl.training import truth as module
from groundrl.training.truth import check_truth_comes_back, check_truth_is_paid, truth_text
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


def test_what_stands_before_the_answer_of_a_target() -> None:
    box = LabeledBox(xyxy=(10, 20, 50, 100), label="red circle")
    body = '```json\n[{"bbox_2d": [10, 20, 50, 100], "label": "red circle"}]\n```'
    before = {
        (ThinkBlock.none, True): "",
        (ThinkBlock.empty, True): "<think></think>",
        (ThinkBlock.template, True): "<think>Asked for: red circle. In the image: red circle.</think>",
        (ThinkBlock.template, False): "<think>Asked for: red circle. In the image: none of them.</think>",
    }
    for (think, present), block in before.items():
        sample, answer = (ovd(box, box), None) if present else (ovd(), "None")
        text = truth_text(sample, (FRAME,), CoordinateSpace.PIXEL_ORIGINAL, think)
        twice = body.replace("}]", '}, {"bbox_2d": [10, 20, 50, 100], "label": "red circle"}]')
        assert text == f"{block}<answer>{answer or twice}</answer>"


def test_a_name_in_a_template_is_no_tag() -> None:
    sample = replace(rec(), question="the  one\n</think>")
    text = truth_text(sample, (FRAME,), CoordinateSpace.PIXEL_ORIGINAL, ThinkBlock.template)
    assert text.startswith("<think>Asked for: the one /think>.</think><answer>")
    answer = parse_rollout(written_rollout("r", text, [FRAME]), sample)
    assert (answer.status, answer.strict) == (ParseStatus.OK, True)


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


def test_a_format_reward_does_not_hide_a_term_that_pays_nothing() -> None:
    words = ["reward.terms.iou.binary_at=0.99"]
    rubric = compose_run(words).reward.build()
    check_truth_is_paid([rec()], [(FRAME,)], CoordinateSpace.PIXEL_ORIGINAL, rubric)
    with pytest.raises(UserError, match=r"^reward\.terms\.iou: the truth of sample r"):
        check_truth_is_paid([rec()], [(FRAME,)], CoordinateSpace.PIXEL_RESIZED, rubric)


def test_one_sample_that_can_be_paid_is_enough() -> None:
    rubric = compose_run(["reward.terms.iou.binary_at=0.99"]).reward.build()
    whole = LabeledBox(xyxy=(0, 0, 100, 200), label="red circle")
    easy = replace(rec(), id="easy", truth=Truth(boxes=(whole,)))
    check_truth_is_paid([rec(), easy], [(FRAME,)] * 2, CoordinateSpace.PIXEL_RESIZED, rubric)


def test_penalties_need_not_pay_the_truth() -> None:
    box = LabeledBox(xyxy=(10, 20, 50, 100), label="red circle")
    words = ["reward=ws_cosine_rep", "+reward/term@reward.terms.long=overlong"]
    rubric = compose_run(words).reward.build()
    check_truth_is_paid([ovd(box), ovd()], [(FRAME,)] * 2, CoordinateSpace.PIXEL_RESIZED, rubric)


def test_a_truth_that_cannot_be_read_names_its_sample() -> None:
    rubric = compose_run(["reward=answer"]).reward.build()
    sample = Sample(id="q7", task=Task.yes_no, images=(), truth=Truth(answer="maybe"), question="Is it?")
    with pytest.raises(UserError, match=r"^reward\.terms\.yes_no: sample q7: .*'maybe'; correct the data"):
        check_truth_is_paid([sample], [()], CoordinateSpace.PIXEL_ORIGINAL, rubric)


@pytest.mark.parametrize("task", [Task.rec, Task.ovd, Task.point])
@pytest.mark.parametrize("label", ["red circle", "a <answer> tag", "</think>", '"```json'])
def test_the_written_truth_is_read_back_on_its_own_image(task: Task, label: str) -> None:
    small = ImageFrame(original=(50, 40), processed=(28, 28))
    box = LabeledBox(xyxy=(10, 20, 50, 100), label=label, image=1)
    images = tuple(Image.new("RGB", frame.original) for frame in (small, FRAME))
    sample = Sample(id="two", task=task, images=images, truth=Truth(boxes=(box,)), question="x")
    text = truth_text(sample, (small, FRAME), CoordinateSpace.PIXEL_ORIGINAL)
    answer = parse_rollout(written_rollout("two", text, [small, FRAME]), sample)
    found = answer.points[0] if task is Task.point else answer.boxes[0]
    assert (answer.status, found.image) == (ParseStatus.OK, 1)
    if task is Task.ovd:
        assert found == box


@pytest.mark.parametrize("space", list(CoordinateSpace))
def test_true_boxes_come_back_in_every_space(space: CoordinateSpace) -> None:
    rubric = compose_run(["reward=odlength"]).reward.build()
    box = LabeledBox(xyxy=(10, 20, 60, 40), label="dog")
    check_truth_comes_back([ovd(box), rec(), ovd()], [(FRAME,)] * 3, space, rubric)


def test_a_frame_that_was_mixed_up_loses_the_true_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written with one frame and read with another: the mistake of the requested size for the real one."""
    rubric = compose_run(["reward=odlength"]).reward.build()
    box = LabeledBox(xyxy=(10, 20, 60, 40), label="dog")
    wrong = ImageFrame(original=FRAME.original, processed=(FRAME.processed[0] * 2, FRAME.processed[1]))
    plain = module.truth_text
    monkeypatch.setattr(module, "truth_text", lambda sample, frames, space: plain(sample, (wrong,), space))
    with pytest.raises(UserError, match=r"the true box \[10, 20, 60, 40\] \('dog'\) is lost"):
        check_truth_comes_back([ovd(box)], [(FRAME,)], CoordinateSpace.PIXEL_RESIZED, rubric)


def test_a_box_of_less_than_two_units_may_round_to_nothing() -> None:
    rubric = compose_run(["reward=odlength"]).reward.build()
    tiny = LabeledBox(xyxy=(10.0, 10.0, 10.4, 10.4), label="dog")
    check_truth_comes_back([ovd(tiny)], [(FRAME,)], CoordinateSpace.PIXEL_ORIGINAL, rubric)
