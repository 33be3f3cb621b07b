"""Attacks do what they say, and the table of their gains shows the signs that are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from groundrl.config.compose import compose_run
from groundrl.evaluation.attack_scenes import Base, make_scenes, shifted
from groundrl.evaluation.attack_table import DECLARED, Cell, Property, measure, violations
from groundrl.evaluation.bootstrap import Metric
from groundrl.geometry.boxes import iou
from groundrl.parsing.answer import ParseStatus, RejectReason, parse_answer
from groundrl.rewards import attacks as attack
from groundrl.rewards.attacks import ATTACKS, Asked, AttackName, item, items_of, jittered, written
from groundrl.types import LabeledBox, Task

ASKED = Asked(task=Task.ovd, targets=("cat", "dog"), size=(90, 60))
CAT = item((10, 20, 30, 40), "cat")
CAR = Asked(task=Task.rec, targets=(), size=(90, 60))
BOX = item((10, 20, 30, 40), None)


def rng(seed=0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_what_is_written_is_read_back() -> None:
    boxes = (
        LabeledBox(xyxy=(0.0, 1.5, 2.25, 4.0), label="cat"),
        LabeledBox(xyxy=(5, 5, 9, 9), label="a dog"),
    )
    answer = parse_answer(written(Task.ovd, items_of(Task.ovd, boxes)), Task.ovd, truncated=False)
    assert (answer.status, answer.strict, answer.fenced) == (ParseStatus.OK, True, True)
    assert [(box.xyxy, box.label) for box in answer.boxes] == [
        ((0.0, 1.5, 2.25, 4.0), "cat"),
        ((5, 5, 9, 9), "a dog"),
    ]
    assert written(Task.rec, (BOX,)).endswith('<answer>{"bbox_2d": [10, 20, 30, 40]}</answer>')
    assert parse_answer(written(Task.ovd, ()), Task.ovd, truncated=False).status is ParseStatus.NONE


def test_blind_answers() -> None:
    assert attack.whole_image(ASKED, (CAT,), rng()) == (
        item((0, 0, 90, 60), "cat"),
        item((0, 0, 90, 60), "dog"),
    )
    # cells of 30 x 20 pixels, row by row, nine per target
    cells = attack.grid(ASKED, (CAT,), rng())
    assert len(cells) == 18
    assert cells[0] == item((0, 0, 30, 20), "cat")
    assert cells[5] == item((60, 20, 90, 40), "cat")
    assert cells[17] == item((60, 40, 90, 60), "dog")
    assert attack.centre_box(CAR, (BOX,), rng()) == (item((22.5, 15, 67.5, 45), None),)
    assert attack.always_none(ASKED, (CAT,), rng()) == ()


def test_the_grid_is_added_only_to_boxes() -> None:
    assert attack.grid_added(ASKED, (CAT,), rng()) == (CAT, *attack.grid(ASKED, (), rng()))
    assert attack.grid_added(ASKED, (), rng()) == ()


def test_a_box_for_every_target_that_is_not_named() -> None:
    kept, added = attack.claim_all(ASKED, (CAT,), rng())
    assert kept == CAT
    assert isinstance(added, dict)
    assert added["label"] == "dog"
    assert len(attack.claim_all(ASKED, (), rng())) == 2
    assert attack.claim_all(ASKED, (CAT, item((1, 1, 2, 2), "dog")), rng())[2:] == ()


def test_copies_order_and_labels() -> None:
    dog = item((1, 1, 9, 9), "dog")
    assert attack.exact_copies(ASKED, (CAT, dog), rng()) == (CAT, dog) * 4
    assert attack.unknown_labels(ASKED, (CAT, dog), rng()) == (
        CAT,
        dog,
        item((10, 20, 30, 40), "unicorn"),
        item((1, 1, 9, 9), "gryphon"),
    )
    ten = tuple(item((i, i, i + 5, i + 5), "cat") for i in range(10))
    mixed = attack.reordered(ASKED, ten, rng())
    assert mixed != ten
    assert sorted(mixed, key=json.dumps) == sorted(ten, key=json.dumps)
    assert mixed == attack.reordered(ASKED, ten, rng())  # a function of the generator
    assert len(attack.several_boxes(CAR, (BOX,), rng())) == 3


@pytest.mark.parametrize("task", [Task.ovd, Task.rec])
def test_every_malformed_item_is_refused(task) -> None:
    asked, base = (ASKED, CAT) if task is Task.ovd else (CAR, BOX)
    answer = parse_answer(written(task, attack.malformed(asked, (base,), rng())), task, truncated=False)
    reasons = {
        RejectReason.SWAPPED_CORNERS, RejectReason.WRONG_COUNT, RejectReason.ZERO_AREA,
        RejectReason.MISSING_BOX, RejectReason.NOT_AN_ITEM,
    }  # fmt: skip
    assert reasons <= set(answer.rejected)
    if task is Task.ovd:
        assert (len(answer.boxes), len(answer.rejected)) == (1, 6)
    else:
        assert (answer.boxes, answer.status) == ((), ParseStatus.SEVERAL_BOXES)


def test_jittered_copies_overlap_more_than_nine_tenths() -> None:
    """As written, that is rounded; boxes of ten pixels and boxes at the edges of the image included."""
    generator = rng(7)
    lowest, moved = 1.0, 0
    for scene in make_scenes(Task.ovd, 150, seed=3):
        asked = scene.asked
        corner = LabeledBox(xyxy=(0.0, 0.0, 10.0, float(asked.size[1])), label="edge")
        items = items_of(Task.ovd, (*scene.answers[Base.EXACT], corner))
        attacked = attack.jittered_copies(asked, items, generator)
        boxes = [tuple(one["bbox_2d"]) for one in attacked]
        assert attacked[: len(items)] == items
        assert len(boxes) == 4 * len(items)
        for index, copy in enumerate(boxes[len(items) :]):
            original = boxes[index % len(items)]
            moved += copy != original
            lowest = min(lowest, iou(copy, original))
            assert min(copy) >= 0
            assert copy[2] <= asked.size[0]
            assert copy[3] <= asked.size[1]
    assert 0.9 < lowest < 0.95
    assert moved > 500


def test_a_shift_gives_the_overlap_asked_for() -> None:
    # IoU 1/3 of equal boxes: o / (2 - o) = 1/3, so the overlap o is 1/2 and each side moves by 1 - sqrt(1/2)
    box = shifted((0.0, 0.0, 100.0, 50.0), 1 / 3, rng())
    assert abs(box[0]) == pytest.approx(100 * (1 - 0.5**0.5))
    assert abs(box[1]) == pytest.approx(50 * (1 - 0.5**0.5))
    assert iou(box, (0.0, 0.0, 100.0, 50.0)) == pytest.approx(1 / 3)
    assert shifted((1.0, 2.0, 3.0, 4.0), 1.0, rng()) == (1.0, 2.0, 3.0, 4.0)


def test_scenes_are_what_they_are_said_to_be() -> None:
    scenes = make_scenes(Task.ovd, 400, seed=0)
    counts = [len(scene.sample.truth.boxes) for scene in scenes]
    assert set(counts) == {0, 1, 2, 3, 4, 5, 6}
    assert 0.10 < counts.count(0) / 400 < 0.20
    assert max(len({box.label for box in scene.sample.truth.boxes}) for scene in scenes) == 4
    assert all(len(set(scene.sample.targets)) == 8 for scene in scenes)
    assert len({scene.frame.original for scene in scenes}) == 5
    for scene in scenes:
        partial = scene.answers[Base.PARTIAL]
        assert len(partial) == -(-len(scene.sample.truth.boxes) // 2)
        assert set(partial) <= set(scene.sample.truth.boxes)
    assert make_scenes(Task.ovd, 20, seed=0) == scenes[:20]
    assert make_scenes(Task.ovd, 20, seed=1) != scenes[:20]
    assert all(len(scene.sample.truth.boxes) == 1 for scene in make_scenes(Task.rec, 20, seed=0))


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Cell]]:
    """150 scenes under the options whose signs are asserted, format weighted 1."""
    found: dict[str, list[Cell]] = {}
    for name in ("ap", "ap50", "odlength", "weighted_sum", "ap_strict", "f1", "hungarian", "iou", "giou"):
        config = compose_run([f"reward={name}"]).reward
        config.terms["format"].weight = 1.0
        found[name] = measure(config.build(), make_scenes(config.task, 150, seed=0), resamples=300)
    return found


def cell(tables, name, base, attack_name) -> Cell:
    return next(c for c in tables[name] if c.base is base and c.attack is attack_name)


def test_no_option_breaks_its_promise(tables) -> None:
    assert [line for name, cells in tables.items() for line in violations(name, cells)] == []
    assert {DECLARED[name] for name in tables} == set(Property)


@pytest.mark.parametrize("name", ["ap", "ap50"])
def test_boxes_behind_the_true_ones_are_free_under_average_precision(tables, name) -> None:
    for attack_name in (
        AttackName.EXACT_COPIES, AttackName.JITTERED_COPIES, AttackName.GRID_ADDED, AttackName.UNKNOWN_LABELS,
        AttackName.REORDERED,
    ):  # fmt: skip
        exact = cell(tables, name, Base.EXACT, attack_name)
        assert (exact.gain.low, exact.gain.high, exact.largest) == (0, 0, 0)
    # a grid finds some of the objects that a partial answer left out, and its misses cost nothing
    assert cell(tables, name, Base.PARTIAL, AttackName.GRID_ADDED).gain.low > 0


def test_jittered_copies_pay_where_thresholds_are_high(tables) -> None:
    """A copy is now and then better than a noisy box and passes a threshold the box missed: a gain averaged
    over ten thresholds. At 0.5 every noisy box passes already; what is left there, as with exact copies, are
    copies that take a neighbour."""
    ap, ap50 = (cell(tables, name, Base.NOISY, AttackName.JITTERED_COPIES) for name in ("ap", "ap50"))
    exact = cell(tables, "ap50", Base.NOISY, AttackName.EXACT_COPIES)
    assert ap.gain.low > 0.002
    assert ap50.gain.value == pytest.approx(exact.gain.value, abs=0.002)
    assert cell(tables, "odlength", Base.NOISY, AttackName.JITTERED_COPIES).gain.high < -0.1


def test_the_order_counts_where_it_was_published(tables) -> None:
    """The order of a noisy answer is random already: another one changes single rewards, not the mean."""
    for name in ("ap", "ap50", "odlength"):
        found = cell(tables, name, Base.NOISY, AttackName.REORDERED)
        assert found.largest > 0.1
        assert found.gain.low < 0 < found.gain.high
    for name in ("weighted_sum", "ap_strict", "f1", "hungarian"):
        assert cell(tables, name, Base.NOISY, AttackName.REORDERED).largest < 1e-9


def test_hardened_options_lose_by_every_addition(tables) -> None:
    for name in ("ap_strict", "f1", "hungarian"):
        for base in Base:
            for attack_name in ATTACKS[Task.ovd]:
                if attack_name is not AttackName.REORDERED:
                    assert cell(tables, name, base, attack_name).gain.high < -0.02


def test_saying_none_earns_the_share_of_negatives(tables) -> None:
    negatives = sum(not scene.sample.truth.boxes for scene in make_scenes(Task.ovd, 150, seed=0)) / 150
    for name in ("ap", "odlength", "weighted_sum", "ap_strict", "f1", "hungarian"):
        found = cell(tables, name, Base.EXACT, AttackName.ALWAYS_NONE)
        assert found.before == 2  # 1 and the format
        assert found.after == pytest.approx(1 + negatives)


def test_one_box_is_asked_for_and_several_earn_nothing(tables) -> None:
    assert cell(tables, "iou", Base.EXACT, AttackName.SEVERAL_BOXES).after == 0
    assert cell(tables, "giou", Base.NOISY, AttackName.MALFORMED).after == -1
    # "None" is no box: neither IoU nor format
    assert cell(tables, "iou", Base.NOISY, AttackName.ALWAYS_NONE).after == 0


def synthetic(base, attack_name, *, low, high, largest=0.0) -> Cell:
    gain = Metric(value=(low + high) / 2, low=low, high=high)
    return Cell(base=base, attack=attack_name, gain=gain, largest=largest, before=1.0, after=1.0)


def test_a_broken_promise_is_named() -> None:
    paying = synthetic(Base.NOISY, AttackName.GRID, low=-0.1, high=0.2)
    assert violations("f1", [paying]) == ["f1, noisy answers, grid: gains +0.0500, upper bound +0.2000 > 0"]
    assert violations("ap", [paying]) == []
    moving = synthetic(Base.EXACT, AttackName.REORDERED, low=0, high=0, largest=0.25)
    assert violations("f1", [moving]) == ["f1, exact answers, reordered: the order counts, by up to 0.2500"]
    rounding = synthetic(Base.EXACT, AttackName.REORDERED, low=0, high=0, largest=1e-15)
    assert violations("f1", [rounding]) == []
    absent = synthetic(Base.PARTIAL, AttackName.GRID_ADDED, low=0, high=0.1)
    assert "the known gain is not there" in violations("ap", [absent])[0]
    still = synthetic(Base.NOISY, AttackName.REORDERED, low=0, high=0)
    assert violations("odlength", [still]) == [
        "odlength, noisy answers, reordered: the order is known to count and does not"
    ]


def test_jitter_stays_near_and_inside() -> None:
    # 2 % of 100 and of 50 pixels
    x1, y1, x2, y2 = jittered((0.0, 0.0, 100.0, 50.0), (100, 50), rng(1))
    assert 0 <= x1 <= 2
    assert 0 <= y1 <= 1
    assert 98 <= x2 <= 100
    assert 49 <= y2 <= 50
