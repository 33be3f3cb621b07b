"""NMS-AP against a plain reference on random scenes, and the published aggregation."""

import numpy as np
import pytest

from groundrl.evaluation.coco import Scores, coco_metrics
from groundrl.evaluation.ovdeval import ASPECTS, aspect_weights, nms_ap, suppress
from groundrl.rewards.detection import Scene
from groundrl.types import LabeledBox

# celebrity, logo, landmark, color, material, position, relationship, negation, overall: the published
# OVDEval table and the rows of the table over model sizes, in percent
SUBSETS = ("celebrity", "logo", "landmark", "color", "material", "position", "relationship", "negation")
PUBLISHED = {
    "omdet": (1.8, 6.1, 26.3, 22.9, 16.3, 21.2, 41.98, 35.1, 25.86),
    "base_3b": (13.2, 26.5, 21.3, 2.9, 11.6, 47.9, 13.1, 38.7, 25.46),
    "base_7b": (48.4, 35.8, 44.6, 3.0, 10.5, 40.5, 16.2, 39.0, 29.08),
    "sft_3b": (50.4, 34.9, 50.7, 4.3, 7.6, 33.7, 13.1, 34.4, 26.50),
    "rl_3b": (55.0, 34.6, 47.9, 4.5, 9.7, 42.9, 21.5, 37.7, 31.01),
    "rl_7b": (57.1, 38.3, 49.4, 7.8, 14.7, 39.4, 20.1, 43.1, 32.42),
    "base_32b": (57.7, 32.5, 46.7, 4.4, 13.6, 41.7, 20.6, 47.0, 32.79),
    "rl_32b": (57.8, 35.8, 48.3, 7.8, 19.1, 44.5, 27.0, 51.7, 36.79),
}
GROUNDING_DINO = (0.7, 10.3, 15.1, 9.4, 9.0, 67.5, 10.7, 52.5, 25.30)


def box(x, label="a", *, width=10.0, image=0) -> LabeledBox:
    return LabeledBox(xyxy=(x, 0.0, x + width, 10.0), label=label, image=image)


def means(values: dict[str, float]) -> dict[str, float]:
    """The aspect means and the overall one of sub-set values, in whatever order these come."""
    numbers = np.array(list(values.values()))
    return {name: float(row @ numbers) for name, row in aspect_weights(list(values)).items()}


def overall(values: dict[str, float]) -> float:
    return means(values)["overall"]


def kept(predictions, truths, scores=None) -> list[int]:
    scene = Scene(predictions=tuple(predictions), truths=tuple(truths))
    return suppress(scene, scores or [1.0] * len(predictions))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_rows(name) -> None:
    *subsets, expected = PUBLISHED[name]
    # values are published with one digit, their means with two: half a unit of the last place
    assert overall(dict(zip(SUBSETS, subsets, strict=True))) == pytest.approx(expected, abs=0.01)


def test_one_published_row_does_not_follow_the_rule() -> None:
    """(8.7 + 9.2 + 67.5 + 10.7 + 52.5) / 5 = 29.72, printed as 25.30."""
    *subsets, expected = GROUNDING_DINO
    assert overall(dict(zip(SUBSETS, subsets, strict=True))) == pytest.approx(29.72, abs=1e-9)
    assert abs(29.72 - expected) > 4


def test_aspect_means() -> None:
    values = dict(zip(SUBSETS, (3, 6, 9, 1, 2, 4, 5, 7), strict=True))
    expected = {"proper_noun": 6, "attribute": 1.5, "position": 4, "relationship": 5, "negation": 7}
    found = means(values)
    assert found.pop("overall") == pytest.approx(23.5 / 5)
    assert found == {f"aspect/{name}": pytest.approx(value) for name, value in expected.items()}
    assert means(dict(reversed(values.items())))["overall"] == pytest.approx(23.5 / 5)
    assert sorted(name for names in ASPECTS.values() for name in names) == sorted(SUBSETS)


def test_an_aspect_without_one_of_its_subsets_has_no_mean() -> None:
    values = {name: 1.0 for name in SUBSETS if name != "logo"}
    assert sorted(means(values)) == [f"aspect/{name}" for name in sorted(ASPECTS) if name != "proper_noun"]


def test_one_prediction_stays_on_a_true_box_whatever_its_label() -> None:
    predictions = [box(0, "red car"), box(1, "blue car"), box(500, "blue car")]
    assert kept(predictions, [box(0, "red car")]) == [1, 2]  # equal scores: the last emitted
    assert kept(predictions, [box(0, "red car")], [0.9, 0.8, 0.1]) == [0, 2]
    assert kept(predictions, [box(0, "red car")], [0.8, 0.9, 0.1]) == [1, 2]


def test_exactly_half_is_not_on_the_box() -> None:
    assert kept([box(0, width=5), box(0)], [box(0)]) == [0, 1]
    assert kept([box(0, width=5.1), box(0)], [box(0)]) == [1]


def test_what_another_true_box_keeps_is_not_dropped() -> None:
    """Prediction 0 lies on both (IoU 9/11), 1 on the first only (8/12, the other 6/14), 2 on the second only.
    By the first scores the first true box keeps 1 and the second keeps 0."""
    predictions, truths = [box(1), box(-2), box(4)], [box(0), box(2)]
    assert kept(predictions, truths, [0.5, 0.9, 0.4]) == [0, 1]
    assert kept(predictions, truths, [0.5, 0.4, 0.9]) == [0, 2]


def test_images_without_truth_are_untouched_and_images_do_not_mix() -> None:
    assert kept([box(0), box(0)], []) == [0, 1]
    assert kept([], [box(0)]) == []
    pair = [box(0, image=0), box(0, image=1), box(0, image=1)]
    assert kept(pair, [box(0, image=1)]) == [0, 2]


def test_suppression_shows_what_average_precision_hides() -> None:
    """Every label on one box: AP of the true one is 1 either way; after suppression only the last label is
    left, which is wrong here, and the true category has no prediction."""
    truths = (box(0, "red car"), box(500, "blue car"))
    predictions = (box(0, "red car"), box(500, "blue car"), box(0, "blue car"))
    scenes = [Scene(predictions=predictions, truths=truths)]
    assert coco_metrics(scenes).ap == pytest.approx(1.0)
    assert nms_ap(scenes).ap == pytest.approx(0.5)  # red car 0, blue car 1 (its true one comes first)
    assert nms_ap(scenes, scores=Scores.EMISSION).ap == pytest.approx(1.0)  # the first label is kept


def test_scores_are_those_before_the_suppression() -> None:
    """By emission the junk of the first image is item 2 and ranks behind item 1 of the second image, although
    its item 1 is dropped: hit, hit, hit, junk."""
    first = Scene(predictions=(box(0), box(1), box(500)), truths=(box(0),))
    second = Scene(predictions=(box(0), box(100)), truths=(box(0), box(100)))
    assert nms_ap([first, second], scores=Scores.EMISSION).ap == pytest.approx(1.0)
    # with equal scores: hit (the copy, IoU 9/11, below .85), junk, hit, hit
    assert nms_ap([first, second]).ap50 == pytest.approx((34 + 67 * 3 / 4) / 101)


def test_no_predictions_left_or_given() -> None:
    assert nms_ap([Scene(predictions=(), truths=(box(0),))]).ap == 0


def reference(scene, scores) -> list[int]:
    """True box by true box, as the definition reads."""

    def overlap(first, second) -> float:
        (a1, b1, a2, b2), (c1, d1, c2, d2) = first, second
        inner = max(0.0, min(a2, c2) - max(a1, c1)) * max(0.0, min(b2, d2) - max(b1, d1))
        return inner / ((a2 - a1) * (b2 - b1) + (c2 - c1) * (d2 - d1) - inner)

    keep, drop = set(), set()
    for true in scene.truths:
        on_it = [
            index
            for index, box in enumerate(scene.predictions)
            if box.image == true.image and overlap(box.xyxy, true.xyxy) > 0.5
        ]
        if on_it:
            best = on_it[0]
            for index in on_it[1:]:
                if scores[index] >= scores[best]:
                    best = index
            keep.add(best)
            drop.update(index for index in on_it if index != best)
    return [index for index in range(len(scene.predictions)) if index not in drop - keep]


def random_boxes(rng, count) -> tuple[LabeledBox, ...]:
    """Boxes of two images that lie close enough for many to share a true box."""
    corners, sides = rng.integers(0, 6, (count, 2)), rng.integers(10, 17, (count, 2))
    return tuple(
        LabeledBox(
            xyxy=(float(x), float(y), float(x + w), float(y + h)),
            label=str(rng.choice(["a", "b", "c"])),
            image=int(rng.integers(2)),
        )
        for (x, y), (w, h) in zip(corners, sides, strict=True)
    )


def test_random_scenes_equal_the_reference() -> None:
    rng = np.random.default_rng(5)
    dropped = 0
    for _ in range(500):
        scene = Scene(
            predictions=random_boxes(rng, rng.integers(0, 25)), truths=random_boxes(rng, rng.integers(0, 6))
        )
        scores = (rng.integers(1, 4, len(scene.predictions)) / 4).tolist()  # many equal ones
        expected = reference(scene, scores)
        assert suppress(scene, scores) == expected
        dropped += len(scene.predictions) - len(expected)
    assert dropped > 1000
