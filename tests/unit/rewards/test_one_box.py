"""Terms for one box: generalised IoU, and IoU above a threshold that rises."""

import pickle

import pytest

from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus, parse_rollout
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.dynamic_iou import DynamicIouConfig
from groundrl.rewards.giou import GiouConfig, answer_giou, generalised_iou
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, RolloutStatus, Sample, Scored, Task, Truth

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
TRUTH = Truth(boxes=(LabeledBox(xyxy=(0, 0, 100, 100)),))
REC = Sample(id="s", task=Task.rec, images=(), truth=TRUTH)


def wrap(body) -> str:
    return f"<think>t</think>\n<answer>{body}</answer>\n"


def score(config, text, *, progress=0.0, status=RolloutStatus.FINISHED) -> Scored:
    rollout = written_rollout("s", text, (FRAME, FRAME), status=status)
    context = ScoreContext(answer=parse_rollout(rollout, REC), progress=progress)
    return config.build().score(rollout, REC, context)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ((0, 0, 10, 10), 1),
        ((5, 0, 15, 10), 1 / 3),  # enclosing box 150 = union 150
        ((0, 0, 5, 5), 1 / 4),
        ((10, 0, 20, 10), 0),  # side by side: union 200 = enclosing 200
        ((20, 0, 30, 10), -1 / 3),  # enclosing 300, union 200
        ((10, 10, 20, 20), -1 / 2),  # enclosing 400, union 200
        ((5, 5, 15, 15), 25 / 175 - 50 / 225),
        ((990, 0, 1000, 10), -98 / 100),
    ],
)
def test_giou_by_hand(other, expected) -> None:
    box = (0.0, 0.0, 10.0, 10.0)
    for first, second in ((box, other), (other, box)):
        assert generalised_iou(first, second) == pytest.approx(expected, abs=1e-12)
    for unit in (1e-200, 1e-3, 1e150):  # no floor on areas, no overflow
        scaled = [tuple(unit * x for x in xyxy) for xyxy in (box, other)]
        assert generalised_iou(*scaled) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "odd",
    [
        (5, 5, 5, 5),
        (9, 9, 5, 5),
        (float("nan"), 0, 10, 10),
        (0, 0, float("inf"), 10),
        (-1e308, -1e308, 1e308, 1e308),
        (1e300, 1e300, 2e300, 2e300),
    ],
)
def test_giou_of_what_cannot_be_compared_is_the_lowest(odd) -> None:
    assert generalised_iou((0, 0, 10, 10), odd) == -1
    assert generalised_iou(odd, (0, 0, 10, 10)) == -1


def test_two_inverted_boxes_are_no_pair() -> None:
    assert generalised_iou((9, 9, 5, 5), (9, 9, 5, 5)) == -1
    assert generalised_iou((5, 0, 9, 4), (5, 4, 9, 0)) == -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wrap("[0, 0, 100, 100]"), 1),
        (wrap("[0, 0, 50, 100]"), 0.5),
        (wrap("[200, 0, 300, 100]"), -1 / 3),
        (wrap("[539, 379, 640, 480]"), (100 * 100 + 101 * 101) / (640 * 480) - 1),  # the far corner
        (wrap("[639, 479, 640, 480]"), 10001 / (640 * 480) - 1),
        (wrap('{"bbox_2d": [0, 0, 100, 100], "image": 1}'), -1),
        (wrap('{"bbox_2d": [0, 0, 100, 100], "image": 2}'), -1),
        (wrap("[[0, 0, 100, 100], [0, 0, 100, 100]]"), -1),
        (wrap("[100, 100, 0, 0]"), -1),
        (wrap("[900, 900, 999, 999]"), -1),
        (wrap("None"), -1),
        (wrap("[1e999, 0, 1, 1]"), -1),
        ("[0, 0, 100, 100]", -1),
        ("", -1),
    ],
)
def test_giou_term(text, expected) -> None:
    assert score(GiouConfig(), text).value == pytest.approx(expected, abs=1e-12)


def test_no_silence_pays_more_than_the_worst_box() -> None:
    worst = score(GiouConfig(), wrap("[639, 479, 640, 480]")).value
    cut = score(GiouConfig(), "<answer>[0, 0, 100", status=RolloutStatus.TRUNCATED_LENGTH).value
    assert cut == -1 < worst


def test_giou_counts_the_best_of_several_truths_on_the_image_and_keeps_the_iou() -> None:
    answer = Answer(status=ParseStatus.OK, boxes=(LabeledBox(xyxy=(0, 0, 10, 10), image=1),))
    truths = (
        LabeledBox(xyxy=(0, 0, 10, 10)),
        LabeledBox(xyxy=(20, 0, 30, 10), image=1),
        LabeledBox(xyxy=(0, 0, 10, 20), image=1),
    )
    assert answer_giou(answer, Truth(boxes=truths)) == 0.5
    assert answer_giou(answer, Truth(boxes=truths[:2])) == pytest.approx(-1 / 3)
    assert answer_giou(answer, Truth(boxes=truths[:1])) == -1
    assert answer_giou(answer, Truth()) == -1
    assert score(GiouConfig(), wrap("[0, 0, 50, 100]")).detail == {"iou": 0.5}
    assert score(GiouConfig(), wrap("[200, 0, 300, 100]")).detail == {"iou": 0}


@pytest.mark.parametrize(
    ("progress", "threshold"),
    [(0.0, 0.85), (0.0999, 0.85), (0.1, 0.95), (0.2499, 0.95), (0.25, 0.99), (0.5, 0.99), (1.0, 0.99)],
)
def test_schedule(progress, threshold) -> None:
    scored = score(DynamicIouConfig(), wrap("[0, 0, 90, 100]"), progress=progress)
    assert scored.detail == {"threshold": threshold, "iou": 0.9}
    assert scored.value == (0.9 if threshold < 0.9 else 0)
    assert score(DynamicIouConfig(), wrap("[0, 0, 100, 100]"), progress=progress).value == 1


def test_the_threshold_itself_is_paid_and_binary_pays_one() -> None:
    assert score(DynamicIouConfig(), wrap("[0, 0, 85, 100]")).value == 0.85
    assert score(DynamicIouConfig(), wrap("[0, 0, 84.9, 100]")).value == 0
    assert score(DynamicIouConfig(binary=True), wrap("[0, 0, 85, 100]")).value == 1
    assert score(DynamicIouConfig(binary=True), wrap("[0, 0, 84.9, 100]")).value == 0
    for text in (wrap("None"), wrap("[[0, 0, 100, 100], [0, 0, 100, 100]]"), "junk"):
        assert score(DynamicIouConfig(binary=True), text).value == 0


def test_own_schedule() -> None:
    config = DynamicIouConfig(starts=[0.0, 0.5], thresholds=[0.9, 0.3])
    half = wrap("[0, 0, 50, 100]")
    assert [score(config, half, progress=p).value for p in (0.0, 0.49, 0.5, 1.0)] == [0, 0, 0.5, 0.5]


@pytest.mark.parametrize("config", [GiouConfig(), DynamicIouConfig()])
def test_terms_travel_between_processes(config) -> None:
    term = config.build()
    assert pickle.loads(pickle.dumps(term)) == term
    assert (term.tasks, term.needs) == ({Task.rec}, ())


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"starts": [0.0, 0.1]}, "starts"),
        ({"starts": [0.1, 0.2, 0.3]}, "starts"),
        ({"starts": [0.0, 0.2, 0.2]}, "starts"),
        ({"starts": [0.0, 0.2, 0.1]}, "starts"),
        ({"starts": [0.0, 0.2, 1.0]}, "starts"),
        ({"starts": [0.0, float("nan"), 0.5]}, "starts"),
        ({"starts": [], "thresholds": []}, "thresholds"),
        ({"thresholds": [0.5, 0.6, 1.1]}, "thresholds"),
        ({"weight": float("nan")}, "weight"),
    ],
)
def test_bad_settings_name_their_key(settings, key) -> None:
    with pytest.raises(ConfigError) as caught:
        DynamicIouConfig(**settings)
    assert caught.value.key == key
