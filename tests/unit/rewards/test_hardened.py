"""Terms that padding, copies, order and silence do not fool: hand-worked values and attacks."""

import itertools
import json
import pickle

import numpy as np
import pytest

from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus, RejectReason, parse_rollout
from groundrl.rewards.ap_strict import StrictApConfig, strict_average_precision
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.detection import COCO_THRESHOLDS, accumulate
from groundrl.rewards.f1 import F1Config
from groundrl.rewards.hungarian import HungarianConfig
from groundrl.rewards.matched import best_total, true_positives
from groundrl.rewards.repetition_box import RepetitionBoxConfig
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, Sample, Scored, Task, Truth

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
WRONG = ((500, 300, 600, 400), "cat")
UNICORN = ((0, 0, 9, 9), "unicorn")
REFUSED = ((9, 9, 0, 0), "cat")
CONFIGS = (StrictApConfig(), F1Config(), HungarianConfig())


def boxes(*items) -> tuple[LabeledBox, ...]:
    return tuple(LabeledBox(xyxy=xyxy, label=label) for xyxy, label in items)


def sample(*items) -> Sample:
    return Sample(id="s", task=Task.ovd, images=(), truth=Truth(boxes=boxes(*items)))


OVD, NEGATIVE = sample(CAT, DOG), sample()


def wrap(body) -> str:
    return f"<think>t</think>\n<answer>{body}</answer>\n"


def listed(*items) -> str:
    found = [{"bbox_2d": list(xyxy), "label": label} for xyxy, label in items]
    return wrap(f"```json\n{json.dumps(found)}\n```")


def score(config, target, text, frames=(FRAME,)) -> Scored:
    rollout = written_rollout("s", text, frames)
    context = ScoreContext(answer=parse_rollout(rollout, target))
    return config.build().score(rollout, target, context)


def answer_of(*items) -> Answer:
    return Answer(status=ParseStatus.OK, boxes=boxes(*items))


# |G| = 2. ap_strict: TP / |P| times 51/101 for half the recall; f1: 2 TP / (|P| + 2); hungarian: IoU / max
@pytest.mark.parametrize(
    ("items", "strict", "f1", "matched"),
    [
        ([CAT, DOG], 1, 1, 1),
        ([CAT], 51 / 101, 2 / 3, 1 / 2),
        ([CAT, DOG, WRONG], 2 / 3, 4 / 5, 2 / 3),
        ([WRONG, DOG, CAT], 2 / 3, 4 / 5, 2 / 3),  # the order is nothing
        ([CAT, DOG, UNICORN], 2 / 3, 4 / 5, 2 / 3),
        ([CAT, DOG, REFUSED], 2 / 3, 4 / 5, 2 / 3),
        ([CAT, WRONG, UNICORN], 1 / 3 * 51 / 101, 2 / 5, 1 / 3),
        ([CAT, CAT, CAT, DOG], 2 / 4, 4 / 6, 2 / 4),
        ([(CAT[0], "dog"), (DOG[0], "cat")], 0, 0, 0),
        ([(CAT[0], " CAT"), (DOG[0], "Dog ")], 1, 1, 1),
        ([WRONG, UNICORN], 0, 0, 0),
        # both moved by 10 px: IoU 8100 / 11900 = .681, so 4 of the 10 thresholds
        ([((10, 10, 110, 110), "cat"), ((210, 210, 310, 310), "dog")], 0.4, 0.4, 81 / 119),
        # IoU 1 and .5 (threshold inclusive): TP 2 at one threshold, 1 at nine
        (
            [CAT, ((200, 200, 300, 250), "dog")],
            (1 + 9 * 0.5 * 51 / 101) / 10,
            (1 + 9 * 0.5) / 10,
            0.75,
        ),
        # IoU .4999: no pair at any threshold
        ([CAT, ((200, 200, 300, 249.99), "dog")], 0.5 * 51 / 101, 0.5, 0.5),
    ],
)
def test_values_by_hand(items, strict, f1, matched) -> None:
    values = [score(config, OVD, listed(*items)).value for config in CONFIGS]
    assert values == pytest.approx([strict, f1, matched], abs=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("None", 1),
        ("none.", 1),
        ("[]", 1),
        ("no objects", 0),
        ("null", 0),
        ('[{"bbox', 0),
        ("```json\n[{]\n```", 0),
        ("{}", 0),
        ('[{"bbox_2d": [1, 1, 1, 1], "label": "cat"}]', 0),
        ('[{"bbox_2d": [0, 0, 9, 9], "label": "cat"}]', 0),
        ("", 0),
    ],
)
def test_nothing_there_is_paid_for_a_well_formed_none_only(config, body, expected) -> None:
    assert score(config, NEGATIVE, wrap(body)).value == expected
    assert score(config, OVD, wrap(body)).value == 0
    assert score(config, NEGATIVE, body).value == 0  # without tags


def test_many_copies_and_a_carpet_of_boxes() -> None:
    """Three exact boxes and 21 copies: AP 1, odLength 3 / 24."""
    truth = [((100 * i, 0, 100 * i + 50, 50), "cat") for i in range(3)]
    padded = listed(*truth, *(truth * 7))
    values = [score(config, sample(*truth), padded).value for config in CONFIGS]
    assert values == pytest.approx([3 / 24, 6 / 27, 3 / 24])
    assert score(RepetitionBoxConfig(), sample(*truth), padded).value == -21 / 24
    carpet = [((x, y, x + 20, y + 20), "cat") for x in range(0, 640, 20) for y in range(0, 480, 20)]
    values = [score(config, sample(carpet[5]), listed(*carpet)).value for config in CONFIGS]
    assert values == pytest.approx([1 / 768, 2 / 769, 1 / 768])


def test_pairs_are_counted_by_a_maximum_matching() -> None:
    """Boxes of 30 px, each step of 10 px an IoU of 20 / 40. Answered 0, 10, 20; true 10, 20, 30. Two perfect
    pairs leave the answer 0 and the truth 30 alone; three pairs of .5 leave nobody."""
    answered = [((x, 0, x + 30, 30), "a") for x in (0, 10, 20)]
    target = sample(*[((x, 0, x + 30, 30), "a") for x in (10, 20, 30)])
    for order in itertools.permutations(answered):
        text = listed(*order)
        assert score(F1Config(thresholds=[0.5]), target, text).value == 1
        assert score(StrictApConfig(thresholds=[0.5]), target, text).value == 1
        assert score(F1Config(thresholds=[0.5, 0.9]), target, text).value == pytest.approx((1 + 2 / 3) / 2)
        assert score(HungarianConfig(), target, text).value == pytest.approx(2 / 3)  # largest total IoU: 2


def test_a_copy_pays_only_where_it_hits_a_second_true_box() -> None:
    """The documented limit: true boxes of IoU 90 / 110, so that one answer fits both."""
    crowd = sample(((0, 0, 100, 100), "a"), ((10, 0, 110, 100), "a"))
    once, twice = listed(((0, 0, 100, 100), "a")), listed(*[((0, 0, 100, 100), "a")] * 2)
    assert score(F1Config(thresholds=[0.5]), crowd, once).value == pytest.approx(2 / 3)
    assert score(F1Config(thresholds=[0.5]), crowd, twice).value == 1
    assert score(RepetitionBoxConfig(), crowd, twice).value == -0.5


def test_strict_ap_is_the_interpolated_ap_with_false_positives_first() -> None:
    for claimed, true, hits in itertools.product(range(1, 7), range(1, 7), range(7)):
        if hits > min(claimed, true):
            continue
        truth = [((20 * i, 0, 20 * i + 10, 10), "a") for i in range(true)]
        junk = [((20 * i, 50, 20 * i + 10, 60), "a") for i in range(claimed - hits)]
        ranked = np.array([[False] * len(junk) + [True] * hits])
        expected = accumulate(ranked, np.zeros(claimed, dtype=np.int64), np.array([true]))[0, 0]
        value = strict_average_precision(answer_of(*truth[:hits], *junk), sample(*truth).truth, (0.5,))
        assert value == pytest.approx(expected, abs=1e-12)


def test_images_do_not_mix() -> None:
    truths = (LabeledBox(xyxy=CAT[0], label="cat"), LabeledBox(xyxy=DOG[0], label="cat", image=1))
    target = Sample(id="s", task=Task.ovd, images=(), truth=Truth(boxes=truths))
    for first, second, expected in ((0, 1, 1), (1, 0, 0)):
        items = [
            {"bbox_2d": list(CAT[0]), "label": "cat", "image": first},
            {"bbox_2d": list(DOG[0]), "label": "cat", "image": second},
        ]
        for config in CONFIGS:
            assert score(config, target, wrap(json.dumps(items)), (FRAME, FRAME)).value == expected


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([CAT, DOG], 0),
        ([CAT, CAT, DOG], -1 / 3),
        ([CAT] * 5, -4 / 5),
        ([((i, 0, 100 + i, 100), "cat") for i in range(5)], -4 / 5),  # one pixel each, IoU >= 96 / 104
        ([CAT, (CAT[0], "dog")], 0),
        ([CAT, (CAT[0], "CAT")], -1 / 2),
        ([CAT, CAT, REFUSED, REFUSED], -1 / 4),
        ([REFUSED] * 3, 0),
        ([((0, 0, 10, 10), "a"), ((0, 0, 10, 9), "a")], 0),  # IoU .9 is not above .9
        ([], 0),
    ],
)
def test_repetition(items, expected) -> None:
    assert score(RepetitionBoxConfig(), OVD, listed(*items)).value == pytest.approx(expected)
    assert score(RepetitionBoxConfig(), NEGATIVE, listed(*items)).value == pytest.approx(expected)


def test_repetition_setting_and_detail() -> None:
    half = listed(CAT, ((0, 0, 100, 60), "cat"))  # IoU .6
    assert score(RepetitionBoxConfig(iou_above=0.5), OVD, half).value == -0.5
    scored = score(RepetitionBoxConfig(iou_above=0.6), OVD, half)
    assert (scored.value, scored.detail) == (0, {"duplicates": 0, "items": 2})
    assert score(RepetitionBoxConfig(), OVD, "no tags").value == 0


def test_settings_and_details() -> None:
    text = listed(CAT, ((200, 200, 300, 260), "dog"), WRONG, REFUSED)  # IoU 1 and .6
    assert score(StrictApConfig(thresholds=[0.6]), OVD, text).value == 2 / 4
    assert score(StrictApConfig(), OVD, text).detail == {"truths": 2, "items": 4}
    scored = score(F1Config(thresholds=[0.6, 0.7]), OVD, text)  # TP 2, then 1
    assert scored.value == pytest.approx((4 / 6 + 2 / 6) / 2)
    assert scored.detail == pytest.approx({"precision": 1.5 / 4, "recall": 1.5 / 2})
    assert score(F1Config(), NEGATIVE, wrap("None")).detail == {"precision": 0, "recall": 0}
    scored = score(HungarianConfig(threshold=0.6), OVD, text)
    assert (scored.value, scored.detail) == (1.6 / 4, {"matched_iou": 1.6, "longer": 4})
    assert score(HungarianConfig(threshold=0.61), OVD, text).value == 1 / 4


def test_best_total_and_true_positives() -> None:
    chain = np.array([[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
    assert best_total(chain) == 2.0
    assert best_total((chain > 0).astype(float)) == 3.0
    assert best_total(np.array([[0.5, 0.75, 0.25]])) == 0.75
    assert best_total(np.array([[0.5], [0.75]])) == 0.75
    assert best_total(np.array([[0.5, 0.0], [0.75, 0.0]])) == 0.75
    assert [best_total(np.zeros(shape)) for shape in ((0, 0), (0, 2), (2, 0), (2, 2))] == [0, 0, 0, 0]
    assert true_positives(answer_of(), Truth(), (0.5, 0.9)).tolist() == [0, 0]
    assert true_positives(answer_of(CAT, CAT), OVD.truth, (0.5, 1.0)).tolist() == [1, 1]
    only_refused = Answer(status=ParseStatus.ITEM_REJECTED, rejected=(RejectReason.NO_LABEL,))
    assert strict_average_precision(only_refused, OVD.truth, COCO_THRESHOLDS) == 0


@pytest.mark.parametrize("config", [*CONFIGS, RepetitionBoxConfig()])
def test_terms_travel_between_processes(config) -> None:
    term = config.build()
    assert pickle.loads(pickle.dumps(term)) == term
    assert (term.tasks, term.needs) == ({Task.ovd}, ())


@pytest.mark.parametrize(
    ("build", "key"),
    [
        (lambda: RepetitionBoxConfig(iou_above=1.0), "iou_above"),
        (lambda: RepetitionBoxConfig(iou_above=float("nan")), "iou_above"),
        (lambda: StrictApConfig(thresholds=[]), "thresholds"),
        (lambda: F1Config(thresholds=[0.5, 50]), "thresholds"),
        (lambda: HungarianConfig(threshold=0.0), "threshold"),
        (lambda: HungarianConfig(threshold=float("nan")), "threshold"),
        (lambda: RepetitionBoxConfig(weight=float("nan")), "weight"),
        (lambda: HungarianConfig(weight=float("inf")), "weight"),
    ],
)
def test_bad_settings_name_their_key(build, key) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert caught.value.key == key
