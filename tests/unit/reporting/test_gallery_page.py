"""Equations, overlays, embedded images and the choice of what is shown."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundrl.reporting.equation import equation, short
from groundrl.reporting.gallery import build_gallery, spread
from groundrl.reporting.images import embed
from groundrl.reporting.overlay import overlay
from groundrl.reporting.records import AnswerShown, GalleryRecord, ShownBox, read_record


def answer(reward: dict[str, Any], **more: Any) -> AnswerShown:
    record = read_record({"step": 1, "sample_id": "a", "rollouts": [{"reward": reward, **more}]})
    assert record
    return record.answers[0]


def record(step: int, sample_id: str = "a", phase: str = "eval", **more: Any) -> GalleryRecord:
    raw = {
        "step": step,
        "sample_id": sample_id,
        "phase": phase,
        "size": [10, 10],
        "rollouts": [{"text": "t"}],
        **more,
    }
    made = read_record(raw)
    assert made
    return made


def test_equation_with_a_penalty() -> None:
    terms = {"iou": {"value": 0.5, "weight": 1.0}, "length": {"value": 0.25, "weight": -0.4}}
    made = equation(answer({"total": 0.4, "terms": terms}))
    assert str(made) == "total 0.4 = 1.0 × iou 0.5 − 0.4 × length 0.25"
    assert made.remark == ""


def test_equation_that_starts_with_a_penalty() -> None:
    made = equation(answer({"total": -0.1, "terms": {"length": {"value": 0.25, "weight": -0.4}}}))
    assert str(made) == "total -0.1 = − 0.4 × length 0.25"


def test_a_sum_that_does_not_hold_is_said() -> None:
    terms = {"iou": {"value": 0.5, "weight": 1.0}, "format": {"value": 1.0, "weight": 0.2}}
    assert equation(answer({"total": 0.5, "terms": terms})).remark == "the terms sum to 0.7"
    assert equation(answer({"total": 0.7004, "terms": terms})).remark == ""


def test_a_missing_term_is_said() -> None:
    made = equation(
        answer({"total": None, "terms": {"judge": {"value": None, "weight": 0.3, "missing": "no answer"}}})
    )
    assert str(made) == "total ? = 0.3 × judge ?"
    assert made.remark == "no value for judge (no answer): the rollout was masked"


def test_equation_without_terms() -> None:
    assert str(equation(answer({"total": 1}))) == "total 1.0"
    assert str(equation(answer({}))) == "total ?"


def test_detail_does_not_repeat_the_value() -> None:
    terms = {"iou": {"value": 0.5, "weight": 1.0, "detail": {"iou": 0.5, "matched": 2}}}
    assert equation(answer({"total": 0.5, "terms": terms})).summands[0].detail == "matched 2.0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.72, "0.72"), (1.0, "1.0"), (0.0, "0.0"), (12.5, "12.5"), (2e-5, "2.0e-05"), (None, "?")],
)
def test_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_overlay_in_image_pixels() -> None:
    made = overlay(
        (200, 100),
        [ShownBox(xyxy=(10, 20, 60, 80), label="cat")],
        [ShownBox(xyxy=(70.5, 90, 60, 30), label="")],
        labels=True,
    )
    assert 'viewBox="0 0 200 100"' in made
    assert '<rect class="truth" x="10" y="20" width="50" height="60"></rect>' in made
    assert '<rect class="pred" x="60" y="30" width="10.5" height="60"></rect>' in made
    assert re.findall(r">([^<>]+)</text>", made) == ["cat", "answer"]
    assert "text" not in overlay((9, 9), [ShownBox(xyxy=(1, 1, 2, 2), label="cat")], [], labels=False)


def test_labels_stay_inside_the_image() -> None:
    corners = [(0, 0, 5, 5), (95, 0, 100, 5), (0, 95, 5, 100), (95, 95, 100, 100), (-50, -50, 500, 500)]
    boxes = [ShownBox(xyxy=corner, label="a rather long label") for corner in corners]
    made = overlay((100, 100), boxes, boxes, labels=True)
    for x, y in re.findall(r'<text [^>]*x="([^"]+)" y="([^"]+)"', made):
        assert 0 <= float(x) <= 100
        assert 0 <= float(y) <= 100


def test_hundreds_of_boxes_are_not_all_drawn() -> None:
    boxes = [ShownBox(xyxy=(1, 1, 2, 2), label="x")] * 500
    assert overlay((10, 10), [], boxes, labels=False).count('class="pred"') == 60
    raw = [{"bbox": [1, 1, 2, 2], "label": "x"}] * 500
    view = build_gallery(Path("none"), [record(1, rollouts=[{"boxes": raw}])]).samples[0].shots[0].main
    assert view.facts == "500 boxes (60 drawn)"


def test_a_small_png_is_embedded_as_it_is(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20), (1, 2, 3)).save(tmp_path / "a.png")
    made = embed(tmp_path, "a.png")
    assert made
    assert made.size == (30, 20)
    assert made.uri == "data:image/png;base64," + base64.b64encode((tmp_path / "a.png").read_bytes()).decode()


def test_a_large_photo_is_made_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (900, 1200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    made = embed(tmp_path, "a.png")
    assert made
    assert made.size == (1200, 900)
    content = base64.b64decode(made.uri.removeprefix("data:image/jpeg;base64,"))
    with Image.open(io.BytesIO(content)) as image:
        assert image.size == (640, 480)


def test_a_broken_image_is_no_image(tmp_path: Path) -> None:
    Image.new("RGB", (300, 200), (1, 2, 3)).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "half.png").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.png").write_text("<svg onload=alert(1)>")
    assert [embed(tmp_path, name) for name in ("half.png", "text.png")] == [None, None]


def test_spread_keeps_the_ends() -> None:
    assert spread(list(range(5)), 5) == [0, 1, 2, 3, 4]
    assert spread(list(range(100)), 4) == [0, 33, 66, 99]
    assert spread([], 4) == []


def test_samples_keep_their_steps_in_order() -> None:
    records = [record(step, name) for step in (0, 8, 4) for name in ("a", "b")] + [record(4, "t", "train")]
    view = build_gallery(Path("none"), records)
    assert view.steps == [0, 4, 8]
    assert [(sample.sample_id, [shot.step for shot in sample.shots]) for sample in view.samples] == [
        ("a", [0, 4, 8]),
        ("b", [0, 4, 8]),
    ]
    assert [group.sample_id for group in view.groups] == ["t"]
    assert len(view.notes) == 3


def test_the_greedy_answer_comes_first() -> None:
    rollouts = [{"kind": "sampled", "text": "s"}, {"kind": "greedy", "text": "g"}]
    shot = build_gallery(Path("none"), [record(1, rollouts=rollouts)]).samples[0].shots[0]
    assert shot.main.answer == "g"
    assert [view.answer for view in shot.others] == ["s"]


def test_reasoning_is_shown_once() -> None:
    rollouts = [{"text": "<think>\nwhy\n</think><answer>[]</answer>", "think": "why"}]
    view = build_gallery(Path("none"), [record(1, rollouts=rollouts)]).samples[0].shots[0].main
    assert (view.think, view.answer) == ("why", "<think>\n…\n</think><answer>[]</answer>")


@pytest.mark.parametrize(
    ("parse_status", "status", "tone"),
    [
        ("ok", "finished", "good"),
        ("none", "finished", "good"),
        ("bad_json", "finished", "bad"),
        ("ok", "truncated_length", "bad"),
    ],
)
def test_failures_stand_out(parse_status: str, status: str, tone: str) -> None:
    rollouts = [
        {"parse_status": parse_status, "status": status, "rejected": ["zero_area", "zero_area"], "tokens": 7}
    ]
    view = build_gallery(Path("none"), [record(1, rollouts=rollouts)]).samples[0].shots[0].main
    assert view.tone == tone
    assert view.facts == "0 boxes, refused: 2 x zero_area, 7 tokens"
