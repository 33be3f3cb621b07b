"""Each term on hand-written rollouts, and what a policy could try on it."""

import itertools
import json
import random

import pytest
from tests.golden.scenes import sample_of as sample
from tests.golden.scenes import score

from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.ap import Ap50Config, ApConfig
from groundrl.rewards.format import FormatConfig
from groundrl.rewards.iou import IouConfig, answer_iou
from groundrl.rewards.odlength import OdLengthConfig
from groundrl.types import LabeledBox, Task, Truth


def wrap(body) -> str:
    return f"<think>t</think>\n<answer>{body}</answer>\n"


def listed(*boxes) -> str:
    items = [{"bbox_2d": list(xyxy), "label": label} for xyxy, label in boxes]
    return wrap(f"```json\n{json.dumps(items)}\n```")


REC = sample(Task.rec, ((0, 0, 100, 100), ""))
CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
OVD = sample(Task.ovd, CAT, DOG)
NEGATIVE = sample(Task.ovd)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[0, 0, 100, 100]", 1.0),
        ("[25, 25, 75, 75]", 0.25),
        ("[0, 0, 50.0, 100]", 0.5),
        ("[-50, 0, 100, 100]", 1.0),  # clipped to the image
        ("[100, 100, 0, 0]", 0.0),
        ("[200, 200, 300, 300]", 0.0),
        ("[[0, 0, 100, 100], [0, 0, 100, 100]]", 0.0),
        ("[[0, 0, 100, 100], [300, 300, 400, 400]]", 0.0),
        ("None", 0.0),
        ("the box [0, 0, 100, 100]", 0.0),
    ],
)
def test_iou(body, expected) -> None:
    scored = score(IouConfig(), REC, wrap(body))
    assert (scored.value, scored.detail) == (expected, {"iou": expected})


def test_binary_iou_is_strict_and_keeps_the_iou_in_its_detail() -> None:
    at_half = score(IouConfig(binary_at=0.5), REC, wrap("[0, 0, 50, 100]"))
    assert (at_half.value, at_half.detail["iou"]) == (0.0, 0.5)
    above = score(IouConfig(binary_at=0.5), REC, wrap("[0, 0, 51, 100]"))
    assert (above.value, above.detail["iou"]) == (1.0, 0.51)


def test_iou_of_another_image_is_zero_and_several_truths_count_the_best() -> None:
    box = LabeledBox(xyxy=(0, 0, 10, 10), image=1)
    answer = Answer(status=ParseStatus.OK, boxes=(box,))
    assert answer_iou(answer, Truth(boxes=(LabeledBox(xyxy=(0, 0, 10, 10)),))) == 0.0
    truths = (LabeledBox(xyxy=(0, 0, 10, 20), image=1), LabeledBox(xyxy=(0, 0, 10, 10), image=1))
    assert answer_iou(answer, Truth(boxes=truths)) == 1.0
    assert answer_iou(answer, Truth()) == 0.0


def test_ap_settings_and_detail() -> None:
    text = listed(((10, 10, 110, 110), "cat"), ((210, 210, 310, 310), "dog"))  # IoU 8100 / 11900
    assert score(ApConfig(), OVD, text).value == pytest.approx(0.4)
    assert score(Ap50Config(), OVD, text).value == 1
    assert score(ApConfig(thresholds=[0.65, 0.7]), OVD, text).value == 0.5
    assert score(ApConfig(), OVD, text).detail == {"truths": 2, "items": 2}
    assert ApConfig().thresholds[::9] == [0.5, 0.95]
    assert ApConfig().thresholds is not ApConfig().thresholds


def test_odlength_explains_itself() -> None:
    scored = score(OdLengthConfig(), OVD, listed(CAT, DOG, CAT))
    assert scored.detail == {"map": 1.0, "length_factor": 2 / 3}
    assert scored.value == scored.detail["map"] * scored.detail["length_factor"]


def test_odlength_counts_unknown_labels_and_refused_items() -> None:
    unicorns = [((0, 0, 9, 9), "unicorn")] * 2
    assert score(OdLengthConfig(), OVD, listed(CAT, DOG, *unicorns)).value == 0.5
    assert score(OdLengthConfig(), OVD, listed(CAT, DOG, ((9, 9, 0, 0), "cat"), ((0, 0), "cat"))).value == 0.5


@pytest.mark.parametrize("config", [ApConfig(), Ap50Config(), OdLengthConfig()])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("None", 1),
        ("[]", 1),
        ("none.", 1),
        ("no objects", 0),
        ('[{"bbox', 0),
        ("```json\n[{]\n```", 0),
        ("{}", 0),
        ('[{"bbox_2d": [1, 1, 1, 1], "label": "cat"}]', 0),
        ('[{"bbox_2d": [0, 0, 9, 9], "label": "cat"}]', 0),
        ("", 0),
    ],
)
def test_negative_samples_pay_only_a_well_formed_none(config, body, expected) -> None:
    assert score(config, NEGATIVE, wrap(body)).value == expected
    assert score(config, OVD, wrap(body)).value == 0
    assert score(config, NEGATIVE, body).value == 0  # without tags


def test_padding_never_pays() -> None:
    """Appending items to an exact answer never raises odlength, whatever they are."""
    extras = [CAT, ((1, 0, 101, 100), "cat"), ((0, 0, 9, 9), "unicorn"), ((9, 9, 0, 0), "dog"), DOG]
    for count in range(1, 4):
        values = [
            score(OdLengthConfig(), OVD, listed(CAT, DOG, *chosen)).value
            for chosen in itertools.product(extras, repeat=count)
        ]
        assert max(values) == pytest.approx(2 / (2 + count))


def test_jittered_copies_are_worth_what_exact_copies_are() -> None:
    exact = score(OdLengthConfig(), OVD, listed(CAT, DOG, *[CAT] * 5)).value
    jitter = [((i, 0, 100 + i, 100), "cat") for i in range(1, 6)]
    assert score(OdLengthConfig(), OVD, listed(CAT, DOG, *jitter)).value == exact == 2 / 7


def test_a_correct_set_is_worth_the_same_in_any_order_and_ap_depends_on_it_otherwise() -> None:
    rng = random.Random(0)
    truth = [((20 * i, 0, 20 * i + 10, 10), "ab"[i % 2]) for i in range(8)]
    target = sample(Task.ovd, *truth)
    for _ in range(10):
        rng.shuffle(truth)
        assert score(ApConfig(), target, listed(*truth)).value == 1
    wrong = ((500, 400, 600, 470), "a")
    assert score(ApConfig(), target, listed(*truth, wrong)).value == 1
    assert score(ApConfig(), target, listed(wrong, *truth)).value == pytest.approx((1 + 4 / 5) / 2)


def test_labels_are_compared_normalised() -> None:
    target = sample(Task.ovd, ((0, 0, 9, 9), "Caf\u00e9 table"))
    assert score(ApConfig(), target, listed(((0, 0, 9, 9), " cafe\u0301  TABLE"))).value == 1


@pytest.mark.parametrize(
    ("build", "key"),
    [
        (lambda: IouConfig(binary_at=1.0), "binary_at"),
        (lambda: IouConfig(binary_at=float("nan")), "binary_at"),
        (lambda: ApConfig(thresholds=[]), "thresholds"),
        (lambda: OdLengthConfig(thresholds=[0.0]), "thresholds"),
        (lambda: Ap50Config(thresholds=[50]), "thresholds"),
        (lambda: FormatConfig(weight=float("nan")), "weight"),
        (lambda: OdLengthConfig(weight=float("inf")), "weight"),
    ],
)
def test_bad_settings_name_their_key(build, key) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert caught.value.key == key
