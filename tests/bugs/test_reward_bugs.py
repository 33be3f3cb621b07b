"""Known kinds of bug about what a reward pays: order, copies, length, weights, and what is logged."""

from __future__ import annotations

import itertools
import math

import pytest
from tests.bugs.helpers import (
    DETECTION,
    VGA,
    Box,
    Item,
    accuracies,
    all_at,
    boxed,
    frame,
    grade,
    graded_by_all,
    hardened,
    listed,
    measured,
    rubric,
    sample,
    values,
    wrap,
)

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.errors import UserError
from groundrl.evaluation.coco import coco_metrics
from groundrl.evaluation.ovdeval import nms_ap
from groundrl.rewards.detection import Scene
from groundrl.rewards.giou import generalised_iou
from groundrl.training.metrics import rollout_metrics, step_record
from groundrl.training.truth import check_truth_is_paid, truth_text
from groundrl.types import XYXY, CoordinateSpace, RolloutStatus, Task

CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
WRONG = ((500, 300, 600, 400), "cat")
BOTH, ONE = sample(Task.ovd, CAT, DOG), sample(Task.ovd, CAT)


def test_b12_the_order_of_equal_scores_does_not_change_a_hardened_reward() -> None:
    """AP of one image, where all scores are 1, hangs on the order of writing."""
    for items in itertools.permutations((CAT, DOG, WRONG)):
        # |P| = 3, |G| = 2, two right
        assert hardened(BOTH, listed(*items)) == pytest.approx((2 / 3, 4 / 5, 2 / 3))
    last, first = accuracies(BOTH, listed(CAT, DOG, WRONG)), accuracies(BOTH, listed(WRONG, CAT, DOG))
    # the published AP keeps its order: with the false positive first the cat has precision 1/2, the dog 1
    assert (last["ap"], first["ap"]) == pytest.approx((1, 0.75))
    assert (last["odlength"], first["odlength"]) == pytest.approx((2 / 3, 0.5))


def test_b12_sibling_the_order_of_truths_of_evaluated_boxes_and_of_two_names_on_one_box() -> None:
    """Another order that must not matter: in the data file, in precision and recall, between two labels."""
    answer = listed(DOG, ((0, 0, 100, 80), "cat"), WRONG)
    turned = sample(Task.ovd, DOG, CAT)
    assert accuracies(BOTH, answer) == pytest.approx(accuracies(turned, answer), abs=1e-12)
    for items in itertools.permutations((CAT, DOG, WRONG)):
        metrics = measured(graded_by_all(BOTH, listed(*items)))
        assert (metrics["gp50"], metrics["gr50"]) == pytest.approx((2 / 3, 1))
    for items in itertools.permutations((CAT, (CAT[0], "dog"))):
        # |P| = 2, |G| = 1, one right
        assert hardened(ONE, listed(*items)) == pytest.approx((1 / 2, 2 / 3, 1 / 2))


THREE = tuple(((100 * n, 0, 100 * n + 50, 50), "cat") for n in range(3))


def test_b13_copies_of_right_boxes_cost() -> None:
    """Duplicates written after the right boxes are nearly free under AP."""
    target = sample(Task.ovd, *THREE)
    found = accuracies(target, listed(*THREE, *THREE * 7))
    # 24 boxes for 3
    assert found["ap"] == 1
    assert (found["odlength"], found["ap_strict"], found["hungarian"]) == pytest.approx((0.125,) * 3)
    assert found["f1"] == pytest.approx(6 / 27)
    assert found["weighted_sum"] == pytest.approx(0.7 + 0.3 * (1 - 21 / 24 / 2))


def test_b13_sibling_copies_of_points_of_one_box_and_in_evaluation() -> None:
    """Many points on one region, the one box many times, and metrics that do not notice."""
    points = ", ".join(f'{{"point_2d": [{n}, 5]}}' for n in range(5))
    region = grade(rubric("reward=point"), sample(Task.point, CAT), wrap(f"[{points}]"))
    assert values(region)["point"] == pytest.approx(2 / 6)  # one hit: 2 / (5 + 1)
    same = ", ".join(['{"bbox_2d": [0, 0, 100, 100]}'] * 24)
    assert values(grade(rubric("reward=iou"), sample(Task.rec, CAT), wrap(f"[{same}]")))["iou"] == 0
    metrics = measured(graded_by_all(sample(Task.ovd, *THREE), listed(*THREE, *THREE * 7)))
    assert (metrics["gp50"], metrics["gr50"], metrics["duplicates_mean"]) == (0.125, 1, 21)
    assert metrics["monitor/duplicates_frac"] == pytest.approx(21 / 24)
    assert metrics["monitor/items_per_truth"] == 8


def test_b14_a_jitter_does_not_hide_a_repeated_box() -> None:
    """Copies that differ by a pixel are no exact repeats."""
    jittered = [((n, n, 100 + n, 100 + n), "cat") for n in range(5)]
    found = values(graded_by_all(ONE, listed(*jittered)))
    # neighbours: 99 x 99 of 2 x 10000 - 9801, IoU .961: four of five repeat an earlier one
    assert found["repetition_box"] == pytest.approx(-0.8)
    assert found["repetition"] == 0  # the published term sees exact repeats only


def test_b14_sibling_another_spelling_or_decimals_hide_nothing_and_evaluation_sees_it() -> None:
    """The label jittered instead of the box, and the same box as other digits."""
    spelt = [(CAT[0], name) for name in ("cat", "Cat", " cat ", "CAT", "cat")]
    found = values(graded_by_all(ONE, listed(*spelt)))
    assert (found["repetition_box"], found["repetition"]) == pytest.approx((-0.8, -0.8))
    digits: list[Item] = [((0, 0, 100, 100), "cat"), ((0.0, "0", 1e2, "100"), "cat")]
    found = values(graded_by_all(ONE, listed(*digits)))
    assert (found["repetition_box"], found["repetition"]) == pytest.approx((-0.5, -0.5))
    jittered = [((n * 0.25, 0, 100, 100), "cat") for n in range(5)]
    metrics = measured(graded_by_all(ONE, listed(*jittered)))
    assert (metrics["duplicates_mean"], metrics["monitor/duplicates_frac"]) == (4, 0.8)
    # two names, or two places, are no repeat
    fair = graded_by_all(BOTH, listed(CAT, (CAT[0], "dog"), DOG))
    assert (values(fair)["repetition_box"], measured(fair)["duplicates_mean"]) == (0, 0)


LENGTH = "reward.terms.cosine.max_length=1024"


def test_b24_the_length_reward_of_a_wrong_answer_is_negative() -> None:
    """Length paid whatever the answer is worth (VLM-R1 #247, #296)."""
    rules = rubric("reward=ws_cosine", LENGTH)
    wrong = values(grade(rules, ONE, listed(WRONG), tokens=10))["cosine"]
    right = values(grade(rules, ONE, listed(CAT), tokens=10))["cosine"]
    # (1 - cos(10 pi / 1024)) / 2 = .000235287: -.5 + .5 x that, and 1 - .5 x that
    assert (wrong, right) == pytest.approx((-0.499882357, 0.999882357), abs=1e-8)


@pytest.mark.parametrize(
    "text", ["", wrap("None"), wrap("[{"), listed(CAT, *[WRONG] * 7)[:60], listed((CAT[0], "dog"))]
)
def test_b24_sibling_silence_is_wrong_too_and_a_false_alarm_where_nothing_is(text: str) -> None:
    """Other wrong answers, and negatives: no length of them is worth as much as any length of a right one."""
    nothing = sample(Task.ovd, targets=["cat"])
    rules = rubric("reward=ws_cosine_rep", LENGTH)
    for tokens in (0, 10, 512, 1024, 5000):
        wrong = values(grade(rules, ONE, text, tokens=tokens))["cosine"]
        assert wrong == pytest.approx(-0.25 * (1 + math.cos(math.pi * min(tokens, 1024) / 1024)), abs=1e-12)
    alarm = grade(rules, nothing, listed(CAT), tokens=10)
    silent = grade(rules, nothing, wrap("None"), tokens=10)
    assert values(alarm)["cosine"] == pytest.approx(-0.499882357, abs=1e-8)
    assert values(silent)["cosine"] == pytest.approx(0.999882357, abs=1e-8)


def test_b25_the_length_reward_stays_at_its_end() -> None:
    """A curve that is not bounded rises again: twice the length paid like none."""
    rules = rubric("reward=ws_cosine", LENGTH)
    for text, end in ((listed(CAT), 0.5), (listed(WRONG), 0.0)):
        for tokens in (1024, 1025, 1536, 2048, 100_000):
            value = values(grade(rules, ONE, text, tokens=tokens))["cosine"]
            assert value == pytest.approx(end, abs=1e-12), tokens


def test_b25_sibling_the_overlong_penalty_and_a_length_of_one() -> None:
    """Another term of length, and the shortest curve."""
    words = ("reward=f1", "+reward/term@reward.terms.overlong=overlong")
    settings = ("reward.terms.overlong.max_length=100", "reward.terms.overlong.cache=50")
    for tokens, value in ((0, 0), (50, 0), (75, -0.5), (100, -1), (200, -1), (100_000, -1)):
        assert values(grade(rubric(*words, *settings), ONE, listed(CAT), tokens=tokens))["overlong"] == value
    short = rubric("reward=ws_cosine", "reward.terms.cosine.max_length=1")
    for tokens, value in ((0, 1.0), (1, 0.5), (2, 0.5)):
        assert values(grade(short, ONE, listed(CAT), tokens=tokens))["cosine"] == pytest.approx(value)


@pytest.mark.parametrize("space", CoordinateSpace)
@pytest.mark.parametrize("box", [(700, 500, 900, 900), (0.1, 0.2, 0.4, 0.4), (100, 480, 200, 500)])
def test_b27_a_truth_in_another_space_stops_the_run(space: CoordinateSpace, box: XYXY) -> None:
    """A reward stuck at 0 for a whole run, because truth and answers are not in one space (VLM-R1 #44)."""
    if space is CoordinateSpace.REL1000 and box[2] < 1:
        box = (0.1, 0.2, 0.14, 0.14)  # 0.4 pixels are still a unit of 1000
    frames = [(frame((640, 480), (644, 476)),)]
    for option, task in (("iou", Task.rec), ("f1", Task.ovd), ("odlength", Task.ovd)):
        rules = rubric(f"reward={option}")
        with pytest.raises(UserError, match=r"no more than an unreadable answer.*the coordinate space"):
            check_truth_is_paid([sample(task, (box, "cat"))], frames, space, rules)
        check_truth_is_paid([sample(task, ((64, 48, 320, 240), "cat"))], frames, space, rules)


@pytest.mark.parametrize("option", [*DETECTION, "iou"])
def test_b27_sibling_the_truth_as_an_answer_is_worth_the_maximum(option: str) -> None:
    """The written truth that its own parser, or one reward of many, does not take at full value."""
    config = compose_run([f"reward={option}"])
    source, rules = config.dataset.build(Split.HELDOUT), rubric(f"reward={option}")
    for index in range(12):
        target = source.sample(index)
        frames = [frame(target.images[0].size)]
        for space in (CoordinateSpace.PIXEL_ORIGINAL, CoordinateSpace.PIXEL_RESIZED):
            text = truth_text(target, frames, space)
            graded = grade(rules, target, text, frames=frames, space=space)
            found = values(graded)
            assert found == pytest.approx({name: float(name != "repetition") for name in found}), text
            assert graded.breakdown.total == pytest.approx(
                sum(rules.weights[name] * value for name, value in found.items())
            )


def test_b27_sibling_an_answer_format_that_the_parser_refuses_stops_the_run() -> None:
    """The other cause of a reward stuck at 0: a truth that cannot be read back."""
    for label in ("", "  "):
        target = sample(Task.ovd, (CAT[0], label))
        with pytest.raises(UserError, match="no more than an unreadable answer"):
            check_truth_is_paid([target], [(VGA,)], CoordinateSpace.PIXEL_ORIGINAL, rubric("reward=f1"))


def test_b28_weights_reach_the_total_and_what_is_logged_is_what_is_used() -> None:
    """A weight that is accepted and ignored (open-r1 #213)."""
    target = sample(Task.rec, CAT)
    rules = rubric("reward=iou", "reward.terms.format.weight=0")
    half = '<answer>{"bbox_2d": [0, 0, 100, 50]}</answer>'  # no think pair: format 0, IoU 1/2
    plain, good = grade(rules, target, half), grade(rules, target, boxed(0, 0, 100, 75))  # IoU 3/4, format 1
    assert (plain.breakdown.total, good.breakdown.total) == (0.5, 0.75)
    logged = rollout_metrics([plain, good])
    # means of 1/2 and 3/4, of 0 and 1: the second reward has no effect and is still reported
    assert (logged["reward/total"], logged["reward/iou"], logged["reward/format"]) == (0.625, 0.625, 0.5)
    record = step_record(3, good)
    assert record["total"] == 0.75
    assert record["terms"] == {
        "iou": {"value": 0.75, "weight": 1.0, "iou": 0.75},
        "format": {"value": 1.0, "weight": 0.0, "tags": 1.0, "body": 1.0},
    }
    metrics = measured(good)
    assert (metrics["reward/total"], metrics["reward/format"]) == (0.75, 1)
    weighed = rubric("reward=iou", "reward.terms.iou.weight=2", "reward.terms.format.weight=-0.5")
    assert grade(weighed, target, boxed(0, 0, 100, 75)).breakdown.total == 2 * 0.75 - 0.5


def test_b28_sibling_a_schedule_is_followed_and_a_weight_of_zero_keeps_a_term_for_others() -> None:
    """A schedule accepted and ignored, and a term that vanishes with its weight."""
    target, answer = sample(Task.rec, CAT), boxed(0, 0, 100, 90)  # IoU .9
    rules = rubric("reward=dynamic_iou", "reward.terms.format.weight=0")
    # thresholds .85, .95 from a tenth of the run on, .99 from a quarter on
    for progress, value, threshold in ((0.0, 0.9, 0.85), (0.0999, 0.9, 0.85), (0.1, 0, 0.95), (1.0, 0, 0.99)):
        graded = grade(rules, target, answer, progress=progress)
        assert graded.breakdown.total == values(graded)["dynamic_iou"] == pytest.approx(value)
        logged = step_record(1, graded)["terms"]
        assert isinstance(logged, dict)
        assert logged["dynamic_iou"]["threshold"] == threshold
    unweighted = ("reward.terms.weighted_sum.weight=0", "reward.terms.format.weight=0", LENGTH)
    only_length = grade(rubric("reward=ws_cosine", *unweighted), ONE, listed(WRONG), tokens=1024)
    assert only_length.breakdown.total == pytest.approx(0, abs=1e-12)  # the end of the wrong branch, not .5
    assert values(only_length)["weighted_sum"] == 0


def scene(predictions: tuple[Box, ...], *truths: Box) -> Scene:
    boxes = sample(Task.ovd, *predictions).truth.boxes
    return Scene(predictions=boxes, truths=sample(Task.ovd, *truths).truth.boxes)


def test_b60_the_first_annotation_counts_and_an_empty_answer_is_worth_0() -> None:
    """An annotation with id 0 taken for unmatched, and an empty list of results that crashes."""
    assert coco_metrics([scene((CAT,), CAT)]).ap == pytest.approx(1)
    assert coco_metrics([scene((), CAT)]).ap == 0
    assert math.isnan(coco_metrics([scene((CAT,))]).ap)  # no truth: not defined, and no error
    for text, value in ((listed(CAT), 1), (wrap("[]"), 0), (wrap("?"), 0)):
        assert measured(graded_by_all(ONE, text))["ap"] == pytest.approx(value)


def test_b60_sibling_other_evaluators_sets_with_gaps_and_no_truth_at_all() -> None:
    """The first image, the first category and an empty image of a set, under every detection evaluator."""
    for evaluate in (coco_metrics, nms_ap):
        assert evaluate([scene((CAT,), CAT)]).ap50 == pytest.approx(1)
        assert evaluate([scene((), CAT), scene((), DOG)]).ap == 0
        # one of two cats found at full precision: recall levels 0 to .50 are 51 of 101
        assert evaluate([scene((CAT,), CAT), scene((), CAT)]).ap == pytest.approx(51 / 101)
        assert evaluate([scene(()), scene((CAT,), CAT)]).ap == pytest.approx(1)
    alone = measured(graded_by_all(sample(Task.ovd, targets=["cat"]), wrap("None")))
    assert "ap" not in alone
    empty = sample(Task.ovd, targets=["cat"], name="empty")
    rows = (graded_by_all(empty, wrap("[]")), graded_by_all(ONE, listed(CAT)))
    assert (measured(*rows)["ap"], measured(*rows)["gp50"]) == pytest.approx((1, 1))


def test_b61_an_unreadable_answer_is_never_worth_more_than_a_wrong_box() -> None:
    """Not answering pays 0, a wrong box a negative GIoU; and a floor on areas that distorts small boxes."""
    rules, target = rubric("reward=giou"), sample(Task.rec, ((0, 0, 10, 10), ""))
    # hull 40 x 10, union 200: 0 - 200 / 400
    wrong = values(grade(rules, target, boxed(30, 0, 40, 10)))["giou"]
    assert wrong == pytest.approx(-0.5)
    # the far corner of the image: hull 640 x 480, union 101
    worst = values(grade(rules, target, boxed(639, 479, 640, 480)))["giou"]
    assert worst == pytest.approx(101 / 307200 - 1)
    for text in (
        "",
        wrap(""),
        wrap("?"),
        wrap("None"),
        wrap("[1, 2, 3]"),
        wrap("[[1, 1, 2, 2], [1, 1, 2, 2]]"),
    ):
        assert values(grade(rules, target, text))["giou"] == -1, text
    cut = grade(rules, target, boxed(0, 0, 10, 10)[:40], status=RolloutStatus.TRUNCATED_LENGTH)
    assert values(cut)["giou"] == -1 < worst < wrong
    for unit in (1, 1e-3, 1e-9, 1e6):
        # half of the box: hull and union are the box, 1 / 2
        assert generalised_iou((0, 0, unit, unit), (0, 0, unit, unit / 2)) == pytest.approx(0.5)


@pytest.mark.parametrize("option", ["iou", "dynamic_iou", "giou", *DETECTION])
def test_b61_sibling_silence_pays_least_in_every_reward_option(option: str) -> None:
    """Another reward, penalty or weight that makes it pay not to answer."""
    rules = rubric(f"reward={option}")
    task = rules.task
    target = sample(task, CAT)
    wrong = listed((WRONG[0], "cat")) if task is Task.ovd else boxed(*WRONG[0])
    paid = grade(rules, target, wrong, tokens=20).breakdown.total
    assert paid is not None
    for text in ("", "?", wrap(""), wrap("no"), wrap("[{")):
        unreadable = grade(rules, target, text, tokens=20).breakdown.total
        assert unreadable is not None
        assert unreadable <= paid, text


def test_b61_sibling_no_floor_on_the_overlap_of_small_boxes() -> None:
    """A minimum overlap in pixels, which takes boxes that meet in one pixel for apart."""
    target = sample(Task.rec, ((0, 0, 10, 10), ""))
    # one column of 10 pixels of 100 + 100 - 10
    touching = grade(rubric("reward=iou"), target, boxed(9, 0, 19, 10))
    assert values(touching)["iou"] == pytest.approx(1 / 19)
    tiny = sample(Task.ovd, ((0, 0, 1, 1), "cat"))
    assert accuracies(tiny, listed(((0, 0, 1, 1), "cat"))) == pytest.approx(all_at(1))
    assert measured(graded_by_all(tiny, listed(((0, 0, 1, 1), "cat"))))["gp50"] == 1
