"""Known kinds of bug about boxes as they are written, labels and targets."""

from __future__ import annotations

import json
import logging
import unicodedata
from pathlib import Path

import pytest
from PIL import Image
from tests.bugs.helpers import (
    DETECTION,
    accuracies,
    all_at,
    boxed,
    fenced,
    grade,
    graded_by_all,
    hardened,
    listed,
    main_term,
    measured,
    rubric,
    sample,
    values,
    wrap,
)

from groundrl.data.base import Split
from groundrl.data.jsonl import Jsonl, JsonlConfig
from groundrl.errors import DataError
from groundrl.parsing.answer import ParseStatus, RejectReason
from groundrl.types import CoordinateSpace, Task

CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
ONE, BOTH = sample(Task.ovd, CAT), sample(Task.ovd, CAT, DOG)


def opened(folder: Path, task: Task, *rows: dict[str, object]) -> Jsonl:
    """`dataset=jsonl` over these rows, all about one 640 x 480 picture."""
    Image.new("RGB", (640, 480)).save(folder / "a.png")
    lines = [json.dumps({"image": "a.png", **row}, ensure_ascii=False) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    config = JsonlConfig(path=str(folder / "rows.jsonl"), task=task, heldout_every=10**9)
    return Jsonl(config, Split.TRAIN)


def test_b5_true_boxes_in_another_order_are_refused_at_import(tmp_path: Path) -> None:
    """x, y, width, height taken for two corners: one row that cannot be corners refuses the file."""
    fine = [{"question": f"q{n}", "boxes": [[10, 20, 15, 25]]} for n in range(3)]
    assert opened(tmp_path, Task.rec, *fine).size == 3
    for box in ([10, 20, 5, 5], [10, 20, 10, 25], [10, 20, 15, 20], [10, 20, 15, 5]):
        with pytest.raises(DataError, match=r"row 4: box .* with x1 < x2 and y1 < y2"):
            opened(tmp_path, Task.rec, *fine, {"question": "q", "boxes": [box]})
        labelled = {"targets": ["cat"], "boxes": [{"bbox_2d": box, "label": "cat"}]}
        with pytest.raises(DataError, match="row 1"):
            opened(tmp_path, Task.ovd, labelled)


def test_b5_sibling_swapped_axes_and_answers_in_another_order_are_not_guessed(tmp_path: Path) -> None:
    """y, x, y, x of a wide image leaves the image; an answered x, y, w, h is refused, never turned round."""
    # the box x 500..600, y 20..60 as y1, x1, y2, x2: its lower edge would be 600 of 480
    source = opened(tmp_path, Task.rec, {"question": "q", "boxes": [[20, 500, 60, 600]]})
    with pytest.raises(DataError, match="lies outside its 640 x 480 image"):
        source.sample(0)
    graded = graded_by_all(ONE, listed(((300, 200, 50, 50), "cat"), CAT))
    assert graded.answer.rejected == (RejectReason.SWAPPED_CORNERS,)
    assert values(graded)["f1"] == pytest.approx(2 / 3)  # |P| = 2, |G| = 1, one right
    one_box = grade(rubric("reward=iou"), sample(Task.rec, CAT), boxed(100, 100, 0, 0))
    assert values(one_box) == {"iou": 0, "format": 0}


ODD = (
    ("[1, 2, 3]", RejectReason.WRONG_COUNT),
    ("[1, 2, 3, 4, 5]", RejectReason.WRONG_COUNT),
    ("[[1, 2, 3, 4]]", RejectReason.WRONG_COUNT),
    ("[5, 5, 5, 5]", RejectReason.ZERO_AREA),
    ("[9, 9, 1, 1]", RejectReason.SWAPPED_CORNERS),
    ("[1e309, 0, 1, 1]", RejectReason.BAD_NUMBER),
    ("[NaN, 0, 1, 1]", RejectReason.BAD_NUMBER),
    ("[-Infinity, 0, 1, 1]", RejectReason.BAD_NUMBER),
    (f"[0, 0, 1, {'9' * 5000}]", RejectReason.BAD_NUMBER),
    ('["one", 2, 3, 4]', RejectReason.NOT_A_NUMBER),
    ("[true, 2, 3, 4]", RejectReason.NOT_A_NUMBER),
    ("null", RejectReason.MISSING_BOX),
)


def test_b6_an_odd_box_is_refused_with_its_reason_and_the_others_keep_their_value() -> None:
    """Swapped, empty, endless or miscounted coordinates that crash, or spoil the whole answer."""
    boxes = ["[0, 0, 100, 100]", '["1", "2", "3", "4"]', *(text for text, _ in ODD)]
    items = ", ".join(f'{{"bbox_2d": {box}, "label": "cat"}}' for box in boxes)
    graded = graded_by_all(ONE, wrap(f"```json\n[{items}]\n```"))
    assert [box.xyxy for box in graded.answer.boxes] == [(0, 0, 100, 100), (1, 2, 3, 4)]
    assert graded.answer.rejected == tuple(reason for _, reason in ODD)
    # |P| = 14 with one right of |G| = 1; weighted_sum: .7 + .3 (1 - (0 + 13/14) / 2)
    found = values(graded)
    names = ("ap", "odlength", "ap_strict", "f1", "hungarian", "weighted_sum")
    assert [found[name] for name in names] == pytest.approx(
        [1, 1 / 14, 1 / 14, 2 / 15, 1 / 14, 0.7 + 0.3 * 15 / 28]
    )
    metrics = measured(graded)
    assert (metrics["parse/rejected_mean"], metrics["gp50"]) == (12, pytest.approx(1 / 14))


@pytest.mark.parametrize(("box", "reason"), ODD)
def test_b6_sibling_one_odd_box_is_worth_nothing_in_any_one_box_reward(
    box: str, reason: RejectReason
) -> None:
    """The same boxes as the only answer of the tasks with one box or point."""
    text = wrap(f'{{"bbox_2d": {box}}}')
    worst = {"iou": 0, "dynamic_iou": 0, "giou": -1}
    for option, value in worst.items():
        graded = grade(rubric(f"reward={option}"), sample(Task.rec, CAT), text)
        assert graded.answer.rejected == (reason,)
        assert values(graded) == {option: value, "format": 0}
    for point in ("[1]", "[1, 2, 3]", "[NaN, 1]", "[1e309, 1]", "[[1, 2]]", "[true, 1]", "null", '"1, 2"'):
        region = sample(Task.point, CAT)
        graded = grade(rubric("reward=point"), region, wrap(f'{{"point_2d": {point}}}'))
        assert (graded.answer.points, len(graded.answer.rejected)) == ((), 1)
        assert values(graded) == {"point": 0, "format": 0}


def test_b7_decimals_are_numbers() -> None:
    """A pattern of unsigned integers silently gives 0 for decimals."""
    target = sample(Task.rec, ((10, 20, 30, 40), ""))
    graded = grade(rubric("reward=iou"), target, boxed(10.5, 20, 30, 40))
    assert values(graded) == {"iou": pytest.approx(0.975), "format": 1}  # 19.5 x 20 of 20 x 20
    assert measured(graded)["iou"] == pytest.approx(0.975)


@pytest.mark.parametrize("first", ["-0.5", "-1e0", '"-3.25"', "-0", "0.0", "0e5"])
def test_b7_sibling_negatives_exponents_and_numeric_strings_in_every_task(first: str) -> None:
    """What is left of the image is clipped to its edge, so each of these is the true box or region."""
    box = f"[{first}, 0.0, 1e2, 100.0]"
    one_box = grade(rubric("reward=iou"), sample(Task.rec, CAT), wrap(f'{{"bbox_2d": {box}}}'))
    assert values(one_box) == {"iou": 1, "format": 1}
    text = wrap(f'```json\n[{{"bbox_2d": {box}, "label": "cat"}}]\n```')
    assert accuracies(ONE, text) == pytest.approx(all_at(1))
    inside = grade(rubric("reward=point"), sample(Task.point, CAT), wrap('{"point_2d": [99.99, "1e-2"]}'))
    assert values(inside) == {"point": 1, "format": 1}


def test_b8_several_boxes_for_one_question_are_read_alike_by_reward_and_evaluation() -> None:
    """The first of two boxes rewarded, the last one evaluated."""
    target = sample(Task.rec, CAT)
    right, wrong = '{"bbox_2d": [0, 0, 100, 100]}', '{"bbox_2d": [300, 300, 400, 400]}'
    for first, second in ((right, wrong), (wrong, right), (right, right)):
        for text in (f"[{first}, {second}]", f"[{first}, 7, {second}]"):
            graded = grade(rubric("reward=iou"), target, wrap(text))
            metrics = measured(graded)
            assert graded.answer.status is ParseStatus.SEVERAL_BOXES
            assert values(graded)["iou"] == metrics["iou"] == metrics["acc50"] == metrics["reward/iou"] == 0


@pytest.mark.parametrize("option", DETECTION)
def test_b8_sibling_of_two_fences_every_reward_and_metric_reads_the_last(option: str) -> None:
    """Some rewards reading the first fence and others the last."""
    right = '```json\n[{"bbox_2d": [0, 0, 100, 100], "label": "cat"}]\n```'
    wrong = '```json\n[{"bbox_2d": [300, 300, 400, 400], "label": "cat"}]\n```'
    last = grade(rubric(f"reward={option}"), ONE, wrap(f"{wrong}\n{right}"))
    assert (main_term(option, last), measured(last)["ap"]) == pytest.approx((1, 1))
    first = grade(rubric(f"reward={option}"), ONE, wrap(f"{right}\n{wrong}"))
    assert (main_term(option, first), measured(first)["ap"], measured(first)["gp50"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("true", "said"),
    [
        ('a "red" car', 'A "RED"  car'),
        ("Café", unicodedata.normalize("NFD", "CAFÉ")),
        ("```json", "```JSON"),
        ("a ``` fence", " a ``` fence "),
        ("Straße", "STRASSE"),
        ("it's [1, 2, 3, 4]", "it's [1, 2, 3, 4]"),
        ("back\\slash\n", "Back\\Slash"),
    ],
)
def test_b9_one_normalisation_of_labels_for_all_rewards(true: str, said: str) -> None:
    """Case, spaces, quotes, Unicode forms and fences in a label, seen by some rewards and not by others."""
    target = sample(Task.ovd, ((0, 0, 100, 100), true))
    assert accuracies(target, listed(((0, 0, 100, 100), said))) == pytest.approx(all_at(1))
    assert accuracies(target, listed(((0, 0, 100, 100), f"{said} x")))["ap_strict"] == 0


def test_b9_sibling_import_points_final_answers_and_metrics_normalise_alike(tmp_path: Path) -> None:
    """Another place that compares names, with a rule of its own."""
    decomposed = unicodedata.normalize("NFD", "CAFÉ  au lait")
    boxes = [{"bbox_2d": [0, 0, 100, 100], "label": decomposed}]
    target = opened(tmp_path, Task.ovd, {"targets": ["café au lait"], "boxes": boxes}).sample(0)
    metrics = measured(graded_by_all(target, listed(((0, 0, 100, 100), "Café au Lait"))))
    assert (metrics["ap"], metrics["absent_boxes_mean"]) == (pytest.approx(1), 0)
    assert (metrics["monitor/unknown_labels_frac"], metrics["monitor/absent_boxes"]) == (0, 0)
    regions = sample(Task.point, ((0, 0, 100, 100), "café"), ((200, 0, 300, 100), "tea"))
    point = wrap(json.dumps([{"point_2d": [5, 5], "label": decomposed[:5]}], ensure_ascii=False))
    assert values(grade(rubric("reward=point"), regions, point))["point"] == pytest.approx(2 / 3)
    text = sample(Task.text, answer="café au lait")
    assert values(grade(rubric("reward=answer"), text, wrap(decomposed)))["exact"] == 1


def test_b9_sibling_a_tag_in_a_true_label_stops_no_reward() -> None:
    """A truth that crashes the scorer, whatever is answered to it."""
    for label in ("<answer>", "</think>", "<answer>```json"):
        target = sample(Task.ovd, ((0, 0, 100, 100), label), CAT)
        # the answer names one of two: AP .5 (labels are averaged), F1 2 / 3
        assert accuracies(target, listed(CAT))["ap"] == pytest.approx(0.5)
        assert accuracies(target, listed(CAT))["f1"] == pytest.approx(2 / 3)


def test_b10_names_that_are_one_category_are_merged_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same category asked for twice, so that a perfect answer is a wrong one."""
    boxes = [
        {"bbox_2d": [0, 0, 100, 100], "label": "Dog "},
        {"bbox_2d": [200, 200, 300, 300], "label": "dog"},
    ]
    with caplog.at_level(logging.WARNING):
        target = opened(tmp_path, Task.ovd, {"targets": ["dog", "Dog "], "boxes": boxes}).sample(0)
    assert target.targets == ("dog",)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "merged in 1 rows, first in row 1" in caplog.text
    answer = listed(((0, 0, 100, 100), "dog"), ((200, 200, 300, 300), "dog"))
    assert accuracies(target, answer) == pytest.approx(all_at(1))
    assert len(target.truth.boxes) == 2  # only names are merged, never boxes


def test_b10_sibling_unicode_forms_and_inner_spaces_merge_and_near_names_do_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Duplicates that lower case and strip do not find, and a merge that goes too far."""
    names = ["red  car", "Café", "red car", unicodedata.normalize("NFD", "café"), "red cars", "cafe"]
    rows = [{"targets": ["cat", "dog"], "boxes": []}, {"targets": names, "boxes": []}]
    with caplog.at_level(logging.WARNING):
        source = opened(tmp_path, Task.ovd, *rows)
    assert source.sample(1).targets == ("red  car", "Café", "red cars", "cafe")
    assert "merged in 1 rows, first in row 2" in caplog.text


def test_b11_unknown_labels_are_false_positives() -> None:
    """Boxes with names nobody asked for cost nothing, as in the published AP."""
    answer = listed(CAT, *(((10 * n, 200, 10 * n + 9, 300), "unicorn") for n in range(5)))
    # |P| = 6, |G| = 1, one right; weighted_sum: .7 + .3 (1 - 5/6 / 2)
    assert hardened(ONE, answer) == pytest.approx((1 / 6, 2 / 7, 1 / 6))
    found = accuracies(ONE, answer)
    assert (found["odlength"], found["weighted_sum"]) == pytest.approx((1 / 6, 0.7 + 0.3 * 7 / 12))
    assert found["ap"] == 1  # the published weakness, kept in the term that reproduces it


def test_b11_sibling_names_asked_for_but_absent_refused_items_and_evaluation() -> None:
    """Other claims that match nothing: a hard negative, an item without a label."""
    asked = sample(Task.ovd, CAT, targets=["dog", "horse"])
    absent = [((10 * n, 200, 10 * n + 9, 300), "dog") for n in range(5)]
    graded = graded_by_all(asked, listed(CAT, *absent))
    assert hardened(asked, listed(CAT, *absent)) == pytest.approx((1 / 6, 2 / 7, 1 / 6))
    metrics = measured(graded)
    assert (metrics["gp50"], metrics["absent_boxes_mean"]) == (pytest.approx(1 / 6), 5)
    assert (metrics["monitor/absent_boxes"], metrics["monitor/unknown_labels_frac"]) == (5, 0)
    unicorns = measured(graded_by_all(asked, listed(CAT, *((box, "unicorn") for box, _ in absent))))
    assert (unicorns["monitor/absent_boxes"], unicorns["gp50"]) == (0, pytest.approx(1 / 6))
    assert unicorns["monitor/unknown_labels_frac"] == pytest.approx(5 / 6)
    unlabelled = [{"bbox_2d": list(CAT[0]), "label": "cat"}, *({"bbox_2d": list(box)} for box, _ in absent)]
    assert hardened(ONE, fenced(unlabelled)) == pytest.approx((1 / 6, 2 / 7, 1 / 6))
    # the same on a negative sample: nothing is right, and it is a false alarm
    wrong = graded_by_all(sample(Task.ovd, targets=["dog"]), listed((absent[0][0], "unicorn")))
    assert measured(wrong)["false_alarm"] == 1
    assert accuracies(wrong.sample, wrong.rollout.text) == all_at(0)


def test_b11_sibling_the_space_does_not_make_an_item_free() -> None:
    """An item that only leaves the image after mapping is counted as well."""
    answer = listed(((0, 0, 156.25, 208.3125), "cat"), ((1000, 0, 1100, 10), "cat"))
    # 156.25 / 1000 of 640 is 100; 208.3125 / 1000 of 480 is 99.99
    graded = graded_by_all(ONE, answer, space=CoordinateSpace.REL1000)
    assert values(graded)["ap_strict"] == pytest.approx(1 / 2)
    assert values(graded)["f1"] == pytest.approx(2 / 3)
