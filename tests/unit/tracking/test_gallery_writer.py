"""What the gallery writes: records, images, and what it keeps on resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from groundrl.tracking.gallery import Gallery, GalleryRollout, image_name
from groundrl.tracking.lines import read_lines
from groundrl.types import (
    ImageFrame,
    LabeledBox,
    Missing,
    RewardBreakdown,
    Role,
    Rollout,
    RolloutStatus,
    Sample,
    Scored,
    Segment,
    Task,
    Truth,
)


def make_sample(sample_id: str = "s1", *, images: int = 1) -> Sample:
    return Sample(
        id=sample_id,
        task=Task.ovd,
        images=tuple(Image.new("RGB", (20, 10), (9, 8, 7)) for _ in range(images)),
        truth=Truth(
            boxes=(LabeledBox(xyxy=(1, 2, 3, 4), label="cat"), LabeledBox(xyxy=(0, 0, 1, 1), image=1))
        ),
        targets=("cat", "dog"),
    )


def make_rollout(total: float | None = 0.7) -> GalleryRollout:
    segment = Segment(
        prompt_ids=np.zeros(2, np.int64),
        images=(),
        response_ids=np.zeros(3, np.int64),
        roles=np.array([Role.STUDENT, Role.STUDENT, Role.TEMPLATE], np.int8),
        behaviour_logprobs=np.zeros(3, np.float32),
    )
    rollout = Rollout(
        sample_id="s1",
        group=0,
        index=0,
        segments=[segment],
        status=RolloutStatus.TRUNCATED_LENGTH,
        text="<think>t</think>",
        frames=(ImageFrame(original=(20, 10), processed=(28, 14)),),
    )
    breakdown = RewardBreakdown(
        task=Task.ovd,
        terms={"iou": Scored(0.5, {"matched": 1.0}), "judge": Missing("no answer")},
        weights={"iou": 1.0, "judge": 0.2},
        total=total,
        parse_status="no_box",
    )
    boxes = [LabeledBox(xyxy=(1.5, 2, 3, 4), label="cat")]
    return GalleryRollout(
        kind="greedy", rollout=rollout, breakdown=breakdown, boxes=boxes, rejected=["zero_area"], think="t"
    )


def test_a_record_has_the_agreed_shape(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path, samples=1, train_every=0)
    gallery.add(5, "eval", make_sample(), [make_rollout(None)])
    assert read_lines(tmp_path / "gallery.jsonl").records == [
        {
            "step": 5,
            "phase": "eval",
            "sample_id": "s1",
            "task": "ovd",
            "question": "",
            "targets": ["cat", "dog"],
            "answer": None,
            "image": "images/s1.png",
            "size": [20, 10],
            "truth": [{"bbox": [1, 2, 3, 4], "label": "cat"}],
            "rollouts": [
                {
                    "kind": "greedy",
                    "text": "<think>t</think>",
                    "think": "t",
                    "status": "truncated_length",
                    "parse_status": "no_box",
                    "boxes": [{"bbox": [1.5, 2, 3, 4], "label": "cat"}],
                    "rejected": ["zero_area"],
                    "tokens": 2,
                    "reward": {
                        "total": None,
                        "terms": {
                            "iou": {"value": 0.5, "weight": 1.0, "detail": {"matched": 1.0}},
                            "judge": {"value": None, "weight": 0.2, "detail": {}, "missing": "no answer"},
                        },
                    },
                }
            ],
        }
    ]
    with Image.open(tmp_path / "images" / "s1.png") as image:
        assert (image.size, image.getpixel((0, 0))) == ((20, 10), (9, 8, 7))


def test_a_sample_without_an_image_is_written_too(tmp_path: Path) -> None:
    Gallery(tmp_path, samples=1, train_every=0).add(1, "eval", make_sample(images=0), [])
    record = read_lines(tmp_path / "gallery.jsonl").records[0]
    assert (record["image"], record["size"]) == (None, None)


def test_the_first_samples_are_followed(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path, samples=2, train_every=0)
    assert [gallery.follows(name) for name in ("a", "b", "c", "a", "c")] == [True, True, False, True, False]
    assert not gallery.wants_train(0)


def test_resume_cuts_and_follows_the_same_samples(tmp_path: Path) -> None:
    first = Gallery(tmp_path, samples=1, train_every=0)
    assert first.follows("s7")
    first.add(0, "eval", make_sample("s7"), [make_rollout()])
    first.add(9, "eval", make_sample("s7"), [make_rollout()])
    second = Gallery(tmp_path, samples=1, train_every=0, after=3)
    assert [record["step"] for record in read_lines(tmp_path / "gallery.jsonl").records] == [0]
    assert not second.follows("other")
    assert second.follows("s7")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", ".hidden", "x" * 300, "", "a b\n", "é"])
def test_image_names_are_plain_file_names(name: str) -> None:
    made = image_name(name)
    assert "/" not in made
    assert not made.startswith(".")
    assert made.isascii()
    assert len(made) < 100


def test_changed_names_do_not_collide() -> None:
    assert image_name("coco-1_x.y") == "coco-1_x.y.png"
    assert len({image_name(name) for name in ("a/b", "a_b", "a b", "a:b")}) == 4
