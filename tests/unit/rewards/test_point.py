"""Points against regions: edges, labels, one-to-one, and what guessing earns."""

import json
import pickle

import pytest

from groundrl.parsing.answer import parse_rollout
from groundrl.rewards.base import ScoreContext
from groundrl.rewards.point import PointConfig, point_hits
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, LabeledBox, LabeledPoint, Sample, Scored, Task, Truth

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
BOX = (100, 100, 200, 200)


def sample(*regions) -> Sample:
    boxes = tuple(LabeledBox(xyxy=xyxy, label=label, image=image) for xyxy, label, image in regions)
    return Sample(id="s", task=Task.point, images=(), truth=Truth(boxes=boxes))


def score(target, body) -> Scored:
    rollout = written_rollout("s", f"<think>t</think><answer>{body}</answer>", (FRAME, FRAME))
    context = ScoreContext(answer=parse_rollout(rollout, target))
    return PointConfig().build().score(rollout, target, context)


def listed(*points) -> str:
    keys = ("point_2d", "label", "image")
    return json.dumps([dict(zip(keys, point, strict=False)) for point in points])


ONE = sample((BOX, "", 0))
TWO = sample((BOX, "cat", 0), ((300, 100, 400, 200), "dog", 0))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[150, 150]", 1),
        ("[100, 100]", 1),  # half open: the low edge is inside
        ("[199.999, 199.999]", 1),
        ("[200, 150]", 0),
        ("[150, 200]", 0),
        ("[99.9, 150]", 0),
        ("[320, 240]", 0),  # the middle of the image earns nothing
        ("[[150, 150], [150, 150]]", 2 / 3),  # one region is hit once
        ("[[150, 150], [9, 9], [10, 10]]", 2 / 4),
        ("[[150, 150], [1, 2, 3]]", 2 / 3),  # refused items are claimed
        ("[[150, 150], [700, 150]]", 2 / 3),  # outside the image
        ('{"point_2d": [150, 150], "label": "anything"}', 1),
        ('{"point_2d": [150, 150], "image": 1}', 0),
        ('{"bbox_2d": [100, 100, 200, 200]}', 0),
        ("[1e999, 150]", 0),
        ("None", 0),
        ("here", 0),
        ("", 0),
    ],
)
def test_one_region(body, expected) -> None:
    assert score(ONE, body).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([((150, 150), "cat"), ((350, 150), "dog")], 1),
        ([((350, 150), "Dog "), ((150, 150), " CAT")], 1),
        ([((150, 150), "cat")], 2 / 3),
        ([((150, 150), "dog"), ((350, 150), "cat")], 0),
        ([((150, 150),), ((350, 150),)], 0),  # two labels: a point must say which one it means
        ([((150, 150), "cat"), ((150, 150), "dog"), ((350, 150), "dog")], 4 / 5),
        ([((150, 150), "cat", 1), ((350, 150), "dog")], 2 / 4),
    ],
)
def test_labels_must_agree(points, expected) -> None:
    assert score(TWO, listed(*points)).value == pytest.approx(expected)


def test_an_unlabelled_point_fits_regions_of_one_label() -> None:
    same = sample((BOX, "cat", 0), ((300, 100, 400, 200), "Cat", 0))
    assert score(same, "[[150, 150], [350, 150]]").value == 1
    mixed = sample((BOX, "cat", 0), ((300, 100, 400, 200), "", 0))
    assert score(mixed, "[[150, 150], [350, 150]]").value == 1
    assert score(mixed, listed(((150, 150), "cow"), ((350, 150), "cow"))).value == 2 / 4


def test_hits_are_matched_one_to_one_whatever_the_order() -> None:
    """The first region holds both points, the second only one: a wrong first choice would lose a hit."""
    nested = sample((BOX, "", 0), ((140, 140, 160, 160), "", 0))
    assert score(nested, "[[150, 150], [110, 110]]").value == 1
    assert score(nested, "[[110, 110], [150, 150]]").value == 1
    scored = score(nested, "[[110, 110], [120, 120]]")
    assert (scored.value, scored.detail) == (0.5, {"hits": 1, "regions": 2, "items": 2})


def test_a_grid_of_guesses_earns_next_to_nothing() -> None:
    grid = [[x, y] for x in range(10, 640, 20) for y in range(10, 480, 20)]  # 32 * 24 points
    assert score(ONE, json.dumps(grid)).value == pytest.approx(2 / 769)


@pytest.mark.parametrize(
    ("body", "expected"), [("None", 1), ("[]", 1), ("no", 0), ("[150, 150]", 0), ("[[1, 2, 3]]", 0), ("", 0)]
)
def test_nothing_there(body, expected) -> None:
    assert score(sample(), body).value == expected


def test_hits_of_odd_regions_and_of_nothing() -> None:
    points = [LabeledPoint(xy=(1.0, 1.0)), LabeledPoint(xy=(float("nan"), 1.0))]
    nan = float("nan")
    regions = [LabeledBox(xyxy=xyxy) for xyxy in ((0, 0, 2, 2), (1, 1, 1, 1), (2, 2, 0, 0), (nan, 0, 2, 2))]
    assert point_hits(points, regions).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert point_hits([], regions).shape == (0, 4)
    assert point_hits(points, []).shape == (2, 0)


def test_the_term_travels_between_processes() -> None:
    term = PointConfig().build()
    assert pickle.loads(pickle.dumps(term)) == term
    assert (term.tasks, term.needs) == ({Task.point}, ())
