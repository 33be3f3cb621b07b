"""`parse_rollout` end to end: policies, mapping, and text nobody would write."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundrl.parsing.answer import Answer, ParseStatus, RejectReason, parse_answer, parse_rollout
from groundrl.parsing.config import ParsingConfig
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
    LabeledPoint,
    Rollout,
    RolloutStatus,
    Sample,
    Task,
    Truth,
)

FRAME = ImageFrame(original=(640, 480), processed=(644, 476))
CUT = RolloutStatus.TRUNCATED_LENGTH


def parse(
    text,
    task=Task.ovd,
    *,
    status=RolloutStatus.FINISHED,
    space=CoordinateSpace.PIXEL_ORIGINAL,
    frames=(FRAME,),
    salvage=False,
) -> Answer:
    rollout = Rollout(
        sample_id="s",
        group=0,
        index=0,
        segments=[],
        status=status,
        text=text,
        frames=frames,
        coordinate_space=space,
    )
    sample = Sample(id="s", task=task, images=(), truth=Truth())
    return parse_rollout(rollout, sample, ParsingConfig(salvage=salvage))


def wrap(body) -> str:
    return f"<think>t</think><answer>{body}</answer>"


@pytest.mark.parametrize(
    "body",
    [
        '{"bbox_2d": [38, 53, 83, 105]}',
        '[{"bbox_2d": [38, 53, 83, 105], "label": "x"}]',
        "[38, 53, 83, 105]",
        '```json\n[{"bbox_2d": [38, 53, 83, 105]}]\n```',
    ],
)
def test_rec_shapes(body) -> None:
    answer = parse(wrap(body), Task.rec)
    assert answer.status is ParseStatus.OK
    assert [box.xyxy for box in answer.boxes] == [(38, 53, 83, 105)]
    assert (answer.think, answer.body, answer.strict) == ("t", body, True)


@pytest.mark.parametrize(
    ("body", "rejected"),
    [
        ("[[0, 0, 9, 9], [5, 5, 9, 9]]", ["several_boxes"] * 2),
        ("[[0, 0, 9, 9], [0, 0, 9, 9]]", ["several_boxes"] * 2),  # a copy is a second answer too
        ("[[0, 0, 9, 9], [5, 5, 5, 5]]", ["zero_area", "several_boxes"]),  # as is an invalid one
    ],
)
def test_rec_with_several_items_says_nothing(body, rejected) -> None:
    answer = parse(wrap(body), Task.rec)
    assert (answer.status, answer.boxes) == (ParseStatus.SEVERAL_BOXES, ())
    assert (list(answer.rejected), answer.num_items) == (rejected, 2)


def test_ovd_keeps_order_and_counts_what_it_refuses() -> None:
    items = [
        {"bbox_2d": [1, 2, 3, 4], "label": "dog"},
        {"bbox_2d": [1, 2, 3], "label": "dog"},
        {"bbox_2d": [1, 2, 9, 9], "label": "Cat"},
        {"bbox_2d": [1, 2, 9, 9]},
    ]
    answer = parse(wrap(f"```json\n{json.dumps(items)}\n```"))
    assert answer.boxes == (
        LabeledBox(xyxy=(1, 2, 3, 4), label="dog"),
        LabeledBox(xyxy=(1, 2, 9, 9), label="Cat"),
    )
    assert answer.rejected == (RejectReason.WRONG_COUNT, RejectReason.NO_LABEL)
    assert (answer.num_items, answer.fenced, answer.status) == (4, True, ParseStatus.ITEM_REJECTED)
    assert answer.readable


@pytest.mark.parametrize("body", ["None", "none.", "[]", "```json\n[]\n```", "```json\nNone\n```"])
def test_none_is_one_predicate(body) -> None:
    for task in (Task.rec, Task.ovd):
        answer = parse(wrap(body), task)
        assert (answer.status, answer.boxes, answer.num_items) == (ParseStatus.NONE, (), 0)


def test_boxes_are_mapped_with_the_size_of_their_own_image() -> None:
    frames = (
        ImageFrame(original=(1000, 500), processed=(980, 504)),
        ImageFrame(original=(100, 100), processed=(200, 50)),
    )
    items = [
        {"bbox_2d": [98, 126, 196, 252], "label": "a"},
        {"bbox_2d": [98, 10, 196, 20], "label": "a", "image": 1},
    ]
    answer = parse(wrap(json.dumps(items)), space=CoordinateSpace.PIXEL_RESIZED, frames=frames)
    assert answer.boxes == (
        LabeledBox(xyxy=(100, 125, 200, 250), label="a"),
        LabeledBox(xyxy=(49, 20, 98, 40), label="a", image=1),
    )


def test_relative_coordinates() -> None:
    answer = parse(wrap("[500, 500, 1000, 1000]"), Task.rec, space=CoordinateSpace.REL1000)
    assert (answer.boxes[0].xyxy, answer.clipped) == ((320, 240, 640, 480), 0)


def test_clipping_is_counted_and_what_lies_outside_is_refused() -> None:
    answer = parse(wrap('[{"bbox_2d": [-5, 10, 1200, 50], "label": "a"}]'))
    assert (answer.boxes[0].xyxy, answer.clipped, answer.rejected) == ((0, 10, 640, 50), 1, ())
    answer = parse(wrap('[{"bbox_2d": [700, 10, 1200, 50], "label": "a"}]'))
    assert (answer.status, answer.boxes, answer.readable) == (ParseStatus.ITEM_REJECTED, (), False)
    assert (answer.rejected, answer.clipped) == (("outside_image",), 0)
    huge = parse(wrap("[-1e308, -1e308, 1e308, 1e308]"), Task.rec, space=CoordinateSpace.REL1000)
    assert huge.boxes[0].xyxy == (0, 0, 640, 480)


def test_an_image_that_does_not_exist() -> None:
    body = '[{"bbox_2d": [1, 2, 3, 4], "label": "a", "image": 1}]'
    assert parse(wrap(body)).rejected == ("bad_image",)
    assert parse(wrap("[1, 2, 3, 4]"), Task.rec, frames=()).status is ParseStatus.ITEM_REJECTED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ParseStatus.TRUNCATED),
        ("<think>so", ParseStatus.TRUNCATED),
        ('<think>t</think><answer>[{"bbox_2d": [1, 2, 3, 4], "label": "a"}, {"bb', ParseStatus.TRUNCATED),
        ("<think>t</think><answer>[1, 2, 3, 4]</ans", ParseStatus.TRUNCATED),
        (wrap('[{"bbox_2d": [1, 2, 3, 4], "label": "a"}]') + " and", ParseStatus.OK),
        ("<think>t</think><answer>a</answer><answer>b", ParseStatus.DUPLICATE_TAGS),
    ],
)
def test_truncation_is_visible_and_never_repaired(text, expected) -> None:
    answer = parse(text, status=CUT)
    assert answer.status is expected
    assert bool(answer.boxes) is (expected is ParseStatus.OK)


LEADING = '<think>t</think><answer>```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "a"}, {"bb'


def test_salvage_keeps_complete_items_of_a_cut_answer_and_says_so() -> None:
    answer = parse(LEADING, status=CUT, salvage=True)
    assert (answer.status, answer.truncated) == (ParseStatus.SALVAGED, True)
    assert answer.boxes == (LabeledBox(xyxy=(1, 2, 3, 4), label="a"),)
    assert (answer.rejected, answer.num_items) == (("incomplete",), 2)
    assert not answer.readable
    assert not answer.strict


def test_salvage_is_for_cut_answers_only() -> None:
    assert parse(LEADING, salvage=True).status is ParseStatus.NO_ANSWER_TAG  # finished, and never closed
    assert parse("<think>t <answer>[1, 2, 3, 4]", Task.rec, status=CUT, salvage=True).boxes == ()
    assert parse(LEADING, Task.mcq, status=CUT, salvage=True).status is ParseStatus.TRUNCATED
    two = "<think>t</think><answer>[[1, 2, 3, 4], [1, 2, 3, 4"
    assert parse(two, Task.rec, status=CUT, salvage=True).boxes == ()  # one box was asked for


def test_salvage_of_a_closed_but_broken_answer() -> None:
    body = '[{"bbox_2d": [1, 2, 3, 4], "label": "a"}, {"bb'
    answer = parse(wrap(body), salvage=True)
    assert (answer.status, len(answer.boxes)) == (ParseStatus.SALVAGED, 1)
    assert parse(wrap(body)).status is ParseStatus.BAD_JSON


def test_points_are_mapped_and_refused_outside() -> None:
    body = '[{"point_2d": [322, 238], "label": "a"}, {"point_2d": [645, 0]}, [0, 0]]'
    answer = parse(wrap(body), Task.point, space=CoordinateSpace.PIXEL_RESIZED)
    # 644 x 476 -> 640 x 480: (322, 238) is the centre; 644 is the edge
    assert answer.points == (LabeledPoint(xy=(320, 240), label="a"), LabeledPoint(xy=(0, 0)))
    assert (answer.status, answer.rejected) == (ParseStatus.ITEM_REJECTED, ("outside_image",))
    assert parse(wrap("None"), Task.point).status is ParseStatus.NONE
    edge = parse(wrap("[1000, 1000]"), Task.point, space=CoordinateSpace.REL1000)
    assert edge.points[0].xy == (math.nextafter(640, 0), math.nextafter(480, 0))  # of the last pixel
    assert parse(wrap("[1, 2, 3, 4]"), Task.point).rejected == ("wrong_count",)


@pytest.mark.parametrize("task", [Task.mcq, Task.numeric, Task.yes_no, Task.text, Task.region_label])
def test_tasks_without_boxes_return_the_body(task) -> None:
    answer = parse(wrap(" None. "), task)
    unreadable = task in (Task.numeric, Task.yes_no)
    assert answer.status is (ParseStatus.UNREADABLE if unreadable else ParseStatus.OK)
    assert (answer.body, answer.boxes, answer.value is None) == ("None.", (), unreadable)
    assert parse(wrap(" "), task).status is ParseStatus.EMPTY
    assert parse("B", task).status is ParseStatus.NO_ANSWER_TAG


def test_two_fences_read_the_last() -> None:
    one, two = (json.dumps([{"bbox_2d": [0, 0, x, 9], "label": "a"}]) for x in (1, 2))
    answer = parse(wrap(f"```json\n{one}\n```\n```json\n{two}\n```"))
    assert [box.xyxy[2] for box in answer.boxes] == [2]
    assert not answer.fenced


def test_two_answers_are_none() -> None:
    text = "<think>t</think><answer>[1, 2, 3, 4]</answer><answer>[1, 2, 3, 4]</answer>"
    answer = parse(text, Task.rec)
    assert (answer.status, answer.boxes, answer.body) == (ParseStatus.DUPLICATE_TAGS, (), None)


VALID = wrap(
    '```json\n[{"bbox_2d": [1, 2, 30.5, 40], "label": "dog"}, {"bbox_2d": [5, 5, 9, 9], "label": "é"}]\n```'
)
PIECES = st.sampled_from(
    [
        *"[]{},:\"'\\`\n 0-",
        *("<think>", "</think>", "<answer>", "</answer>", "```json", "```", '"bbox_2d"', '"label"'),
        *("NaN", "1e309", "None", "null", "[1,2,3,4]", "\ud800", "\x00", "9" * 5000),
    ]
)


def check_invariants(text, task, status) -> None:
    answer = parse(text, task, status=status)
    items = len(answer.boxes) + len(answer.points)
    assert answer.num_items == items + len(answer.rejected)
    if task in (Task.rec, Task.ovd, Task.point):  # no silent empty list, no silent refusal
        assert (answer.status in (ParseStatus.OK, ParseStatus.ITEM_REJECTED)) == bool(answer.num_items) or (
            answer.status is ParseStatus.SEVERAL_BOXES
        )
        assert (answer.status is ParseStatus.OK) == bool(items and not answer.rejected)
        assert answer.readable == (bool(items) or answer.status is ParseStatus.NONE)
    if task is Task.rec:
        assert len(answer.boxes) <= 1
    for box in answer.boxes:
        x1, y1, x2, y2 = box.xyxy
        assert 0 <= x1 < x2 <= 640
        assert 0 <= y1 < y2 <= 480
    assert answer == parse(text, task, status=status)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.lists(PIECES, max_size=40).map("".join),
        st.lists(PIECES, max_size=30).map("".join).map(wrap),
    ),
    st.sampled_from(list(Task)),
    st.sampled_from(list(RolloutStatus)),
)
@example("<answer>[[[[", Task.ovd, CUT)
@example("<answer>None", Task.point, CUT)
def test_no_text_raises(text, task, status) -> None:
    check_invariants(text, task, status)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(VALID)), st.integers(0, 12), PIECES), min_size=1, max_size=4),
    st.sampled_from([Task.rec, Task.ovd]),
)
def test_mutations_of_a_valid_answer_do_not_raise(edits, task) -> None:
    text = VALID
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    check_invariants(text, task, RolloutStatus.FINISHED)


@given(st.integers(0, len(VALID) - 1))
def test_no_prefix_of_an_answer_counts_as_one(cut) -> None:
    assert parse(VALID[:cut], status=CUT).status is ParseStatus.TRUNCATED
    assert parse(VALID[:cut]).status is ParseStatus.NO_ANSWER_TAG


ITEM = '{"bbox_2d": [1, 2, 3, 4], "label": "a"}, '


@pytest.mark.parametrize(
    "body",
    [
        "[" * 2_000_000,
        '{"a":' * 400_000,
        '"' * 2_000_000,
        "\\" * 2_000_000,
        "```" * 700_000,
        "```\n" * 500_000,
        "\n" * 2_000_000,
        " " * 1_000_000 + "x" + " " * 1_000_000,
        "9" * 2_000_000,
        "[" + "9" * 2_000_000 + ", 1, 2, 3]",
        "[" + "1," * 1_000_000 + "1]",
        '["' + "1" * 2_000_000 + '"]',
        "[" + '{"bbox_2d": [' * 150_000,
        "[" + ITEM * 50_000,
        '[{"bbox_2d": [1, 2, 3, 4], "label": "' + "\u0301\u0323" * 1_000_000 + '"}]',
        "<think" * 300_000,
    ],
    ids=range(16),
)
def test_two_megabytes_of_anything_finish(body) -> None:
    answer = parse(wrap(body))
    assert answer.boxes == ()
    assert answer.status is not ParseStatus.OK


def test_a_very_long_valid_answer_is_read_in_full() -> None:
    answer = parse(wrap("[" + ITEM * 50_000 + ITEM.rstrip(", ") + "]"))
    assert (answer.status, len(answer.boxes)) == (ParseStatus.OK, 50_001)


def test_work_grows_linearly() -> None:
    """Characters that string searches and scans visit, not seconds: doubling the text doubles them."""

    class Counted(str):
        visits = 0

        def __iter__(self) -> Iterator[str]:
            for char in super().__iter__():
                Counted.visits += 1
                yield char

        def strip(self, *args) -> Counted:
            Counted.visits += len(self)
            return Counted(super().strip(*args))

        def find(self, *args) -> int:
            found = super().find(*args)
            start = args[1] if len(args) > 1 else 0
            Counted.visits += (len(self) if found < 0 else found) - start
            return found

        def count(self, *args) -> int:
            Counted.visits += len(self)
            return super().count(*args)

        def __getitem__(self, key) -> Counted:
            piece = super().__getitem__(key)
            Counted.visits += len(piece)
            return Counted(piece)

    def visits(size) -> int:
        Counted.visits = 0
        parse_answer(Counted(wrap("```json\n" + "[\n" * size + "\n```\n" * size)), Task.ovd, truncated=False)
        return Counted.visits

    assert 1.9 < visits(4000) / visits(2000) < 2.1
