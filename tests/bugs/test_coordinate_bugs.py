"""Known kinds of bug about coordinates: spaces, ranges, clipping, several images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.bugs.helpers import (
    VGA,
    accuracies,
    all_at,
    boxed,
    frame,
    grade,
    graded_by_all,
    listed,
    measured,
    rubric,
    sample,
    values,
    wrap,
)
from tests.tiny import picture

from groundrl.errors import UserError
from groundrl.geometry.frames import from_original, point_to_original, to_original
from groundrl.models.family import family_of
from groundrl.models.load import Policy
from groundrl.parsing.answer import ParseStatus, RejectReason
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.single_turn import SingleTurn
from groundrl.run_config import RunConfig
from groundrl.training.ready import check_ready
from groundrl.types import CoordinateSpace, LabeledBox, Sample, Size, Task, Truth

ORIGINAL, RESIZED, REL1000 = CoordinateSpace
SIZES: tuple[tuple[Size, Size], ...] = (
    ((1000, 500), (980, 504)),
    ((640, 480), (644, 476)),
    ((333, 777), (336, 784)),
    ((28, 28), (28, 28)),
    ((20000, 150), (1988, 28)),
    ((1, 1), (28, 28)),
)


def test_b1_boxes_of_the_resized_image_are_mapped_with_the_size_it_really_had() -> None:
    """Boxes of the resized image against truth in original pixels (VLM-R1 #198, #320)."""
    target = sample(Task.rec, ((100, 100, 200, 200), ""))
    graded = grade(
        rubric("reward=iou"),
        target,
        boxed(98, 101, 196, 202),
        frames=[frame((1000, 500), (980, 504))],
        space=RESIZED,
    )
    # x: 98 * 1000 / 980 = 100, and 200; y: 101 * 500 / 504 = 50500 / 504, and 101000 / 504. In units of 1/504
    # the overlap is 100 (100800 - 50500) and the union 100 (50400 + 50500 - 50300): 503 / 506
    assert values(graded)["iou"] == pytest.approx(503 / 506, abs=1e-12)
    assert measured(graded)["iou"] == pytest.approx(503 / 506, abs=1e-12)


def test_b1_sibling_from_pixels_to_reward_through_the_processor(tiny_policy: Policy) -> None:
    """The size that counts is the one the processor made, each axis by itself, not the picture's."""
    processor = tiny_policy.processor
    target = Sample(
        id="s",
        task=Task.rec,
        images=(picture((100, 60), 0),),
        truth=Truth(boxes=(LabeledBox(xyxy=(25, 15, 75, 45)),)),
        question="red circle",
    )
    # 100 x 60 becomes 112 x 56: 25 -> 28, 75 -> 84; 15 -> 14, 45 -> 42
    engine = ScriptedEngine(lambda request, number, index: boxed(28, 14, 84, 42), processor)
    collector = Collector(engine, processor, PromptConfig().build(), SingleTurn())
    (rollout,) = collector.collect([target], 1, Sampling(temperature=1.0, max_new_tokens=200), seed=[0])
    assert rollout.frames == (frame((100, 60), (112, 56)),)
    graded = rubric("reward=iou").grade(rollout, target)
    assert graded.answer.boxes[0].xyxy == (25, 15, 75, 45)
    assert measured(graded)["acc90"] == values(graded)["iou"] == 1


def test_b2_every_family_declares_its_space_and_an_unknown_one_is_an_error() -> None:
    """Relative coordinates taken for pixels, or the reverse (Visual-RFT #14, #143)."""
    target = sample(Task.rec, ((320, 240, 640, 480), ""))
    relative = grade(rubric("reward=iou"), target, boxed(500, 500, 1000, 1000), space=REL1000)
    assert relative.answer.boxes[0].xyxy == (320, 240, 640, 480)  # 500 of 1000 is half of 640 x 480
    assert values(relative)["iou"] == 1
    pixels = grade(rubric("reward=iou"), target, boxed(320, 240, 640, 480), space=ORIGINAL)
    assert values(pixels)["iou"] == 1
    # taken for pixels, the relative box lies below the image: 500 >= 480
    assert values(grade(rubric("reward=iou"), target, boxed(500, 500, 1000, 1000)))["iou"] == 0
    assert family_of("qwen2_5_vl", "checkpoint").coordinate_space is RESIZED
    for name in ("some_new_vl", "", "Qwen2_5_VL", "qwen2_5_vl "):
        with pytest.raises(UserError, match="is not a known family"):
            family_of(name, "checkpoint")


def test_b2_sibling_points_and_a_folder_that_is_named_like_another_family(
    tiny_config: RunConfig, tmp_path: Path
) -> None:
    """Points need the space as well, and a path never says which family a checkpoint is of."""
    half = frame((640, 480), (320, 240))
    # relative: 640 and 480 by 1/10; pixels of the half-size image: doubled
    expected = {ORIGINAL: (100, 100), RESIZED: (200, 200), REL1000: (64, 48)}
    for space, xy in expected.items():
        assert point_to_original((100, 100), space, half) == xy
        region = sample(Task.point, ((xy[0], xy[1], xy[0] + 1, xy[1] + 1), ""))
        text = wrap('{"point_2d": [100, 100]}')
        assert values(grade(rubric("reward=point"), region, text, frames=[half], space=space))["point"] == 1
    folder = tmp_path / "Qwen2.5-VL-3B-Instruct"
    folder.mkdir()
    for file in Path(tiny_config.model.path).iterdir():
        (folder / file.name).symlink_to(file.resolve())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps({"model_type": "some_new_vl"}), "utf-8")
    config = replace(tiny_config, model=replace(tiny_config.model, path=str(folder)))
    with pytest.raises(UserError, match="model_type 'some_new_vl' is not a known family"):
        check_ready(config)


@pytest.mark.parametrize(("original", "processed"), SIZES)
def test_b3_relative_1000_is_the_edge_of_the_image(original: Size, processed: Size) -> None:
    """Whether relative coordinates end at 999 or at 1000 (Qwen3-VL #1741)."""
    own = frame(original, processed)
    width, height = original
    assert to_original((0, 0, 1000, 1000), REL1000, own) == (0, 0, width, height)
    assert to_original((0, 0, processed[0], processed[1]), RESIZED, own) == (0, 0, width, height)
    target = sample(Task.rec, ((0, 0, width, height), ""))
    graded = grade(rubric("reward=iou"), target, boxed(0, 0, 1000, 1000), frames=[own], space=REL1000)
    assert (graded.answer.clipped, values(graded)["iou"]) == (0, 1)


@pytest.mark.parametrize(("original", "processed"), SIZES)
def test_b3_sibling_there_and_back_in_every_space(original: Size, processed: Size) -> None:
    """A wrong factor on one axis shows in the round trip, and rounding costs half a unit at most."""
    own = frame(original, processed)
    width, height = original
    box = (0.125 * width, 0.25 * height, 0.75 * width, 0.875 * height)
    units = {ORIGINAL: original, RESIZED: processed, REL1000: (1000, 1000)}
    for space, (right, bottom) in units.items():
        written = from_original(box, space, own)
        assert written == pytest.approx((0.125 * right, 0.25 * bottom, 0.75 * right, 0.875 * bottom))
        assert to_original(written, space, own) == pytest.approx(box, rel=1e-12)
        x1, y1, x2, y2 = written
        rounded = to_original((round(x1), round(y1), round(x2), round(y2)), space, own)
        for index, (got, wanted) in enumerate(zip(rounded, box, strict=True)):
            unit = width / right if index % 2 == 0 else height / bottom
            assert abs(got - wanted) <= unit / 2 + 1e-9


def test_b3_sibling_an_image_token_covers_two_patches_of_14(tiny_policy: Policy) -> None:
    """The patch grid of the declared family: 14 pixels, two by two to a token."""
    made = tiny_policy.processor.prepare(picture((100, 60), 0))
    # 112 x 56 pixels: 8 x 4 patches, 4 x 2 tokens
    assert (made.grid_thw, made.frame.processed) == ((1, 4, 8), (112, 56))
    assert tiny_policy.family.image_tokens(made.grid_thw) == 8


def test_b4_coordinates_beyond_the_image_are_clipped_and_counted() -> None:
    """Coordinates outside the image or the range (Qwen3-VL #1035)."""
    rules, target = rubric("reward=iou"), sample(Task.rec, ((0, 10, 640, 50), ""))
    over = grade(rules, target, boxed(-5, 10, 1200, 50))
    assert over.answer.boxes[0].xyxy == (0, 10, 640, 50)
    assert values(over)["iou"] == 1
    beyond = grade(rules, target, boxed(700, 10, 1200, 50))
    assert (beyond.answer.boxes, beyond.answer.rejected) == ((), (RejectReason.OUTSIDE_IMAGE,))
    assert values(beyond) == {"iou": 0, "format": 0}
    assert measured(over)["parse/clipped_mean"] == 1
    metrics = measured(beyond)
    assert (metrics["parse/clipped_mean"], metrics["parse/rejected_mean"], metrics["iou"]) == (0, 1, 0)


@pytest.mark.parametrize("box", [(640, 0, 700, 10), (0, 480, 10, 500), (-9, 0, 0, 10), (0, -9, 10, 0)])
def test_b4_sibling_touching_an_edge_from_outside_is_outside_on_every_side(box: tuple[int, ...]) -> None:
    """The other axis, detection, and evaluation: the box claims something and matches nothing."""
    right = ((0, 0, 100, 100), "cat")
    target = sample(Task.ovd, right)
    graded = graded_by_all(target, listed(right, (box, "cat")))
    assert [one.xyxy for one in graded.answer.boxes] == [(0, 0, 100, 100)]
    found = values(graded)
    # |P| = 2, |G| = 1, one right
    assert (found["f1"], found["ap_strict"], found["odlength"]) == pytest.approx((2 / 3, 1 / 2, 1 / 2))
    assert measured(graded)["gp50"] == 0.5


def test_b4_sibling_a_relative_box_past_1000_on_a_very_wide_image() -> None:
    """The range of the model's space is not the image's: both axes are clipped after mapping."""
    wide = frame((20000, 150), (1988, 28))
    target = sample(Task.rec, ((10000, 75, 20000, 150), ""))
    graded = grade(rubric("reward=iou"), target, boxed(500, 500, 1200, 99999), frames=[wide], space=REL1000)
    assert (graded.answer.boxes[0].xyxy, graded.answer.clipped) == ((10000, 75, 20000, 150), 1)
    assert values(graded)["iou"] == 1


TWO = (frame((640, 480), (320, 240)), frame((200, 100), (100, 100)))
"""Two images whose axes have the factors 2, 2 and 2, 1."""
PAIR = sample(
    Task.ovd,
    LabeledBox(xyxy=(0, 0, 320, 240), label="cat"),
    LabeledBox(xyxy=(100, 50, 200, 100), label="cat", image=1),
)


def pair(first: int, second: int) -> str:
    items = [
        {"bbox_2d": [0, 0, 160, 120], "label": "cat", "image": first},
        {"bbox_2d": [50, 50, 100, 100], "label": "cat", "image": second},
    ]
    return wrap(f"```json\n{json.dumps(items)}\n```")


def test_b15_each_box_is_mapped_with_the_size_of_its_own_image() -> None:
    """Boxes of several images mixed up, or mapped with the first one's size (vllm #14662)."""
    assert accuracies(PAIR, pair(0, 1), frames=TWO, space=RESIZED) == pytest.approx(all_at(1))
    swapped = graded_by_all(PAIR, pair(1, 0), frames=TWO, space=RESIZED)
    assert [(box.image, box.xyxy) for box in swapped.answer.boxes] == [
        (1, (0, 0, 200, 100)),  # 160 * 2 = 320 and 120 * 1 = 120, clipped to 200 x 100
        (0, (100, 100, 200, 200)),
    ]
    # best IoU on the same image: 5000 / 20000 and 10000 / 76800
    assert accuracies(PAIR, pair(1, 0), frames=TWO, space=RESIZED) == all_at(0)


def test_b15_sibling_one_box_points_indices_and_evaluation_know_the_image() -> None:
    """The same coordinates on another image are another place, for every task and metric."""
    same = LabeledBox(xyxy=(10, 10, 50, 50), label="cat", image=1)
    frames = (VGA, VGA)
    box = '{{"bbox_2d": [10, 10, 50, 50], "label": "cat", "image": {}}}'
    for image, value in (("0", 0), ("1", 1), ("2", 0), ("-1", 0), ("0.5", 0), ('"1"', 0), ("null", 0)):
        text = wrap(box.format(image))
        rec = grade(rubric("reward=iou"), sample(Task.rec, same), text, frames=frames)
        assert (values(rec)["iou"], measured(rec)["iou"]) == (value, value), image
        ovd = graded_by_all(sample(Task.ovd, same), text, frames=frames)
        assert accuracies(ovd.sample, text, frames=frames) == pytest.approx(all_at(value)), image
        assert measured(ovd)["gp50"] == value, image
        assert measured(ovd)["ap"] == pytest.approx(value), image
        point = wrap(f'{{"point_2d": [20, 20], "image": {image}}}')
        region = grade(rubric("reward=point"), sample(Task.point, same), point, frames=frames)
        assert values(region)["point"] == value, image
    unknown = graded_by_all(sample(Task.ovd, same), wrap(box.format("2")), frames=frames)
    assert unknown.answer.status is ParseStatus.ITEM_REJECTED
    assert unknown.answer.rejected == (RejectReason.BAD_IMAGE,)
    both = graded_by_all(sample(Task.ovd, same), wrap(f"[{box.format(0)}, {box.format(1)}]"), frames=frames)
    assert (values(both)["repetition_box"], values(both)["repetition"]) == (0, 0)
    assert measured(both)["duplicates_mean"] == 0
