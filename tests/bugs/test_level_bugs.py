"""Known kinds of bug about boxes and labels, from data and prompt to reward and evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from PIL import Image
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

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.coco import CocoConfig
from groundrl.data.jsonl import Jsonl, JsonlConfig
from groundrl.data.refcoco import Format, RefcocoConfig
from groundrl.data.refcoco_json import BoxOrder
from groundrl.data.rows import Row, opened
from groundrl.errors import DataError
from groundrl.evaluation.coco import coco_metrics
from groundrl.models.load import Policy
from groundrl.models.processor import Processor
from groundrl.prompting.prompt import Prompt, PromptConfig
from groundrl.rewards.detection import scene_of
from groundrl.rewards.graded import Graded
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.single_turn import SingleTurn
from groundrl.training.truth import truth_text
from groundrl.types import CoordinateSpace, LabeledBox, Sample, Task, TextPart, Truth

CAT = ((0, 0, 100, 100), "cat")
UNEVEN = frame((100, 60), (112, 56))
"""Wider and lower after the resize: x times 1.12, y times 14 / 15."""


def collected(policy: Policy, space: CoordinateSpace, target: Sample, text: str) -> Graded:
    """The answer as a model of that space would give it, through processor and collector."""
    own = policy.processor
    processor = Processor(own.tokenizer, own.image_processor, replace(own.family, coordinate_space=space))
    engine = ScriptedEngine(lambda request, number, index: text, processor)
    collector = Collector(engine, processor, PromptConfig().build(), SingleTurn())
    (rollout,) = collector.collect([target], 1, Sampling(temperature=1.0, max_new_tokens=300), seed=[0])
    return rubric("reward=iou").grade(rollout, target)


def uneven() -> Sample:
    return Sample(
        id="s",
        task=Task.rec,
        images=(picture((100, 60), 0),),
        truth=Truth(boxes=(LabeledBox(xyxy=(25, 15, 75, 45)),)),
        question="red circle",
    )


WRITTEN = {
    CoordinateSpace.PIXEL_ORIGINAL: (25, 15, 75, 45),
    CoordinateSpace.PIXEL_RESIZED: (28, 14, 84, 42),
    CoordinateSpace.REL1000: (250, 250, 750, 750),
}


@pytest.mark.parametrize("space", CoordinateSpace)
def test_b1_b2_b3_the_truth_is_worth_1_in_every_space(tiny_policy: Policy, space: CoordinateSpace) -> None:
    """From the picture to the metric, resized by another factor on each axis."""
    target = uneven()
    text = truth_text(target, [UNEVEN], space)
    assert json.loads(text[text.index("{") : text.index("}") + 1]) == {"bbox_2d": list(WRITTEN[space])}
    graded = collected(tiny_policy, space, target, text)
    assert graded.rollout.frames == (UNEVEN,)
    assert (values(graded)["iou"], measured(graded)["iou"], measured(graded)["acc90"]) == (1, 1, 1)


def test_b1_b2_sibling_an_answer_in_another_space_is_worth_less_in_reward_and_metric(
    tiny_policy: Policy,
) -> None:
    """Nothing guesses the space from the numbers."""
    resized = boxed(*WRITTEN[CoordinateSpace.PIXEL_RESIZED])
    graded = collected(tiny_policy, CoordinateSpace.PIXEL_ORIGINAL, uneven(), resized)
    # 28..75 x 15..42 is 1269 of 56 * 28 + 50 * 30 - 1269 = 1799
    assert values(graded)["iou"] == measured(graded)["iou"] == pytest.approx(1269 / 1799)
    relative = boxed(*WRITTEN[CoordinateSpace.REL1000])
    outside = collected(tiny_policy, CoordinateSpace.PIXEL_RESIZED, uneven(), relative)
    assert (values(outside)["iou"], measured(outside)["parse/rejected_mean"]) == (0, 1)


def test_b3_sibling_1000_is_the_edge_of_the_image_in_the_metric(tiny_policy: Policy) -> None:
    """The whole image: 999 would leave a strip, 1000 does not."""
    whole = replace(uneven(), truth=Truth(boxes=(LabeledBox(xyxy=(0, 0, 100, 60)),)))
    for edge, value in ((1000, 1.0), (999, 0.999**2)):
        graded = collected(tiny_policy, CoordinateSpace.REL1000, whole, boxed(0, 0, edge, edge))
        assert values(graded)["iou"] == measured(graded)["iou"] == pytest.approx(value, abs=1e-12)


NASTY = (
    # what is written, IoU with (0, 0, 100, 100), clips, refusals
    ("[-5, -5, 100, 100]", 1.0, 1, 0),
    ("[0, 0, 100, 99999]", 10000 / 48000, 1, 0),  # clipped to 480
    ("[700, 0, 800, 100]", 0.0, 0, 1),
    ("[640, 0, 700, 100]", 0.0, 0, 1),
    ("[100, 100, 0, 0]", 0.0, 0, 1),
    ("[5, 5, 5, 5]", 0.0, 0, 1),
    ("[0, 0, 100]", 0.0, 0, 1),
    ("[0, 0, 100, 100, 100]", 0.0, 0, 1),
    ("[1e309, 0, 1, 1]", 0.0, 0, 1),
    ("[0, NaN, 100, 100]", 0.0, 0, 1),
    ('["0", "0", "100", "100"]', 1.0, 0, 0),
    ("[0.0, 0, 1e2, 50.5]", 0.505, 0, 0),
    ("[-0.5, -0.0, 100, 100]", 1.0, 1, 0),
    ("[false, 0, 100, 100]", 0.0, 0, 1),
    ("null", 0.0, 0, 1),
)


@pytest.mark.parametrize(("box", "iou", "clips", "refused"), NASTY)
def test_b4_b6_b7_reward_and_evaluation_agree_and_count(
    box: str, iou: float, clips: int, refused: int
) -> None:
    """Ranges, odd items and decimals: one value in reward and metric, and every clip or refusal counted."""
    one = grade(rubric("reward=iou"), sample(Task.rec, CAT), wrap(f'{{"bbox_2d": {box}}}'))
    found = measured(one)
    assert values(one)["iou"] == found["iou"] == found["reward/iou"] == pytest.approx(iou)
    assert (found["parse/clipped_mean"], found["parse/rejected_mean"]) == (clips, refused)
    many = graded_by_all(sample(Task.ovd, CAT), wrap(f'[{{"bbox_2d": {box}, "label": "cat"}}]'))
    found = measured(many)
    assert (found["parse/clipped_mean"], found["parse/rejected_mean"]) == (clips, refused)
    right = float(iou > 0.5)
    assert (found["gp50"], found["gr50"], found["ap50"]) == pytest.approx((right, right, right))
    assert values(many)["ap"] == pytest.approx(found["image_ap"])


def test_b4_b6_sibling_beside_a_right_box_each_costs_the_same_in_reward_and_evaluation() -> None:
    """A refused item is a false positive in reward and metric, and the right one keeps its value."""
    target = sample(Task.ovd, CAT)
    right = '{"bbox_2d": [0, 0, 100, 100], "label": "cat"}'
    for box, _, _, refused in NASTY:
        if not refused:
            continue
        graded = graded_by_all(target, wrap(f'[{{"bbox_2d": {box}, "label": "cat"}}, {right}]'))
        # |P| = 2, |G| = 1, one right
        assert (values(graded)["f1"], values(graded)["ap_strict"]) == pytest.approx((2 / 3, 1 / 2)), box
        assert (measured(graded)["gp50"], measured(graded)["gr50"]) == (0.5, 1), box


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_b8_several_boxes_pay_nothing_in_reward_and_evaluation(order: tuple[int, int]) -> None:
    """First box rewarded, last box evaluated: with two, neither order is worth anything to either."""
    boxes = ('{"bbox_2d": [0, 0, 100, 100]}', '{"bbox_2d": [300, 300, 400, 400]}')
    text = wrap(f"[{boxes[order[0]]}, {boxes[order[1]]}]")
    graded = grade(rubric("reward=iou"), sample(Task.rec, CAT), text)
    found = measured(graded)
    assert (values(graded)["iou"], found["iou"], found["acc50"]) == (0, 0, 0)
    assert found["parse/several_boxes_frac"] == 1


def coco(folder: Path, *boxes: list[int]) -> CocoConfig:
    Image.new("RGB", (640, 480)).save(folder / "a.png")
    content = {
        "images": [{"id": 1, "file_name": "a.png", "width": 640, "height": 480}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": n, "image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0, "area": 25}
            for n, box in enumerate(boxes, start=1)
        ],
    }
    file = folder / "instances.json"
    file.write_text(json.dumps(content))
    return CocoConfig(path=str(file), heldout_path=str(file), task=Task.ovd)


def test_b5_coco_boxes_are_turned_once_and_evaluated_as_such(tmp_path: Path) -> None:
    """x, y, width, height in the file; corners everywhere after it."""
    target = coco(tmp_path, [10, 20, 5, 5]).build(Split.TRAIN).sample(0)
    assert [box.xyxy for box in target.truth.boxes] == [(10, 20, 15, 25)]
    text = truth_text(target, [VGA], CoordinateSpace.PIXEL_ORIGINAL)
    assert "[10, 20, 15, 25]" in text
    assert accuracies(target, text) == pytest.approx(all_at(1))
    assert measured(graded_by_all(target, text))["ap"] == pytest.approx(1)


def test_b5_sibling_a_coco_file_of_corners_is_refused_and_so_is_a_row_of_widths(tmp_path: Path) -> None:
    """The other order in either file."""
    # as x, y, width, height these would reach 700 + 600 of 640 and more
    with pytest.raises(DataError, match="2 of 2 boxes do not lie in their image"):
        coco(tmp_path, [400, 300, 600, 400], [300, 250, 500, 300]).build(Split.TRAIN)
    with pytest.raises(DataError, match="row 1"):
        jsonl(tmp_path, Task.rec, {"question": "q", "boxes": [[10, 20, 5, 5]]})


def test_b5_sibling_a_refcoco_file_says_its_order_and_the_other_one_is_refused(tmp_path: Path) -> None:
    """The same file read with the right order and with the wrong one."""
    Image.new("RGB", (640, 480)).save(tmp_path / "a.png")
    file = tmp_path / "refs.json"
    file.write_text(json.dumps([{"image": "a.png", "problem": "cat", "solution": [10, 20, 5, 5]}]))
    config = RefcocoConfig(
        path=str(file), heldout_path=str(file), format=Format.json, box_order=BoxOrder.xywh
    )
    target = config.build(Split.TRAIN).sample(0)
    assert [box.xyxy for box in target.truth.boxes] == [(10, 20, 15, 25)]
    graded = grade(rubric("reward=iou"), target, truth_text(target, [VGA], CoordinateSpace.PIXEL_ORIGINAL))
    assert values(graded)["iou"] == measured(graded)["iou"] == 1
    with pytest.raises(DataError):
        replace(config, box_order=BoxOrder.xyxy).build(Split.TRAIN)


def jsonl(folder: Path, task: Task, *rows: dict[str, object]) -> Jsonl:
    Image.new("RGB", (640, 480)).save(folder / "a.png")
    lines = [json.dumps({"image": "a.png", **row}, ensure_ascii=False) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    config = JsonlConfig(path=str(folder / "rows.jsonl"), task=task, heldout_every=10**9)
    return Jsonl(config, Split.TRAIN)


@cache
def detection_prompt() -> Prompt:
    return compose_run(["reward=f1"]).prompt.build()


def asked(target: Sample) -> str:
    """The text of the detection prompt."""
    messages = detection_prompt().messages(target)
    return "".join(part.text for message in messages for part in message.parts if isinstance(part, TextPart))


@pytest.mark.parametrize(
    "label",
    ['a "red" car', "Café", "Cafe\u0301", "```json", "```", "</answer>", "猫; 犬", "a\\b", "{targets}"],
)
def test_b9_a_label_survives_data_prompt_truth_and_evaluation(tmp_path: Path, label: str) -> None:
    """Quotes, Unicode forms, fences and tags in a true label."""
    boxes = [{"bbox_2d": [0, 0, 100, 100], "label": label}]
    target = jsonl(tmp_path, Task.ovd, {"targets": [label], "boxes": boxes}).sample(0)
    assert asked(target).count(label) == asked(replace(target, targets=("?#",))).count(label) + 1
    text = truth_text(target, [VGA], CoordinateSpace.PIXEL_ORIGINAL)
    graded = graded_by_all(target, text)
    assert [box.label for box in graded.answer.boxes] == [label]
    assert accuracies(target, text) == pytest.approx(all_at(1))
    found = measured(graded)
    assert (found["ap"], found["gp50"], found["format"]) == pytest.approx((1, 1, 1))


def test_b9_sibling_spelling_is_normalised_in_evaluation_as_in_reward(tmp_path: Path) -> None:
    """Case, spaces and the decomposed form of an answered label."""
    boxes = [{"bbox_2d": [0, 0, 100, 100], "label": "Café Sign"}]
    target = jsonl(tmp_path, Task.ovd, {"targets": ["Café Sign"], "boxes": boxes}).sample(0)
    for said in ("café sign", "CAFÉ  SIGN", " Cafe\u0301 sign "):
        graded = graded_by_all(target, listed(((0, 0, 100, 100), said)))
        assert accuracies(target, graded.rollout.text) == pytest.approx(all_at(1)), said
        assert (measured(graded)["ap"], measured(graded)["gp50"]) == pytest.approx((1, 1)), said


def test_b10_a_category_is_asked_for_once(tmp_path: Path) -> None:
    """Two names of one category reach the prompt as one, and the truth still has every box."""
    boxes = [{"bbox_2d": [n, 0, n + 50, 50], "label": name} for n, name in ((0, "Zebra "), (100, "zebra"))]
    target = jsonl(tmp_path, Task.ovd, {"targets": ["zebra", "Zebra ", "ZEBRA"], "boxes": boxes}).sample(0)
    assert asked(target).lower().count("zebra") == 1
    text = truth_text(target, [VGA], CoordinateSpace.PIXEL_ORIGINAL)
    assert accuracies(target, text) == pytest.approx(all_at(1))
    assert measured(graded_by_all(target, text))["gr50"] == 1


def test_b10_sibling_a_target_twice_beside_another_keeps_the_order(tmp_path: Path) -> None:
    """Merging drops the later name only."""
    target = jsonl(tmp_path, Task.ovd, {"targets": ["yak", "zebra", "Yak"], "boxes": []}).sample(0)
    text = asked(target)
    assert (text.lower().count("yak"), text.count("zebra")) == (1, 1)
    assert text.index("yak") < text.index("zebra")


def test_b11_unknown_labels_cost_precision_where_coco_does_not_look() -> None:
    """COCO scores only categories that have truth; the pooled precision and the monitors see the rest."""
    target = sample(Task.ovd, CAT)
    text = listed(CAT, *(((10 * n, 200, 10 * n + 9, 300), "unicorn") for n in range(5)))
    graded = graded_by_all(target, text)
    scene = scene_of(graded.answer, target)
    assert len(scene.predictions) == 6
    assert coco_metrics([scene]).ap == pytest.approx(1)
    found = measured(graded)
    assert (found["gp50"], found["gr50"]) == pytest.approx((1 / 6, 1))
    assert found["monitor/unknown_labels_frac"] == pytest.approx(5 / 6)


def test_b11_sibling_a_name_that_another_image_has_is_a_false_positive_for_coco_too() -> None:
    """Over a set, a category is known as soon as one image has it."""
    dog = ((200, 200, 300, 300), "dog")
    rows = [
        graded_by_all(sample(Task.ovd, CAT, name="a"), listed(dog, CAT)),
        graded_by_all(sample(Task.ovd, dog, name="b"), listed(dog)),
    ]
    # dog: a false positive first (image order, equal scores), then a true one: precision 1/2 at every recall;
    # cat: 1; the mean is 3/4. Pooled: 2 of 3
    assert coco_metrics([scene_of(row.answer, row.sample) for row in rows]).ap == pytest.approx(0.75)
    found = measured(*rows)
    assert (found["ap"], found["gp50"], found["gr50"]) == pytest.approx((0.75, 2 / 3, 1))


def two_images(folder: Path, *boxes: LabeledBox) -> Sample:
    picture((100, 60), 0).save(folder / "a.png")
    picture((84, 140), 1).save(folder / "b.png")
    row = Row(number=1, id="s", task=Task.ovd, images=("a.png", "b.png"), targets=("cat",), boxes=boxes)
    return opened(row, folder, file=folder / "rows", split=Split.TRAIN, source="rows")


FIRST = LabeledBox(xyxy=(25, 15, 75, 45), label="cat", image=0)
SECOND = LabeledBox(xyxy=(14, 70, 42, 140), label="cat", image=1)


@pytest.mark.parametrize("space", CoordinateSpace)
def test_b15_boxes_of_two_images_stay_on_them_from_file_to_metric(
    tiny_policy: Policy, tmp_path: Path, space: CoordinateSpace
) -> None:
    """Each box written, read and evaluated with the size of its own image."""
    target = two_images(tmp_path, FIRST, SECOND)
    frames = [tiny_policy.processor.prepare(image).frame for image in target.images]
    assert frames == [UNEVEN, frame((84, 140))]
    text = truth_text(target, frames, space)
    graded = graded_by_all(target, text, frames=frames, space=space)
    assert [box.image for box in graded.answer.boxes] == [0, 1]
    found = measured(graded)
    # 14 and 42 of 84 are 166.67 and 500 of 1000, rounded to 167: IoU above .99
    assert (found["ap"], found["gp50"], found["gr50"]) == pytest.approx((1, 1, 1))
    swapped = replace(target, truth=Truth(boxes=(FIRST._replace(image=1), SECOND._replace(image=0))))
    wrong = measured(graded_by_all(swapped, text, frames=frames, space=space))
    assert (wrong["ap"], wrong["gp50"], wrong["gr50"]) == (0, 0, 0)


def test_b15_sibling_a_true_box_is_checked_against_its_own_image(tmp_path: Path) -> None:
    """A box that fits the other image only, and an image that is not there."""
    with pytest.raises(DataError, match="lies outside its 100 x 60 image"):
        two_images(tmp_path, SECOND._replace(image=0))
    with pytest.raises(DataError, match="is on image 2 of 2"):
        two_images(tmp_path, SECOND._replace(image=2))
