"""`parse_rollout` end to end: policies, mapping, and text nobody would write."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundrl.parsing.answer import Answer, ParseStatus, RejectReason, parse_answer, parse_rollout
from groundrl.types import (
    CoordinateSpace,
    ImageFrame,
    LabeledBox,
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
    return parse_rollout(rollout, Sample(id="s", task=task, images=(), truth=Truth()))


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
    assert (answer.num_items, answer.fenced, answer.status) == (4, True, ParseStatus.OK)


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
    assert (answer.status, answer.boxes) == (ParseStatus.NO_BOX, ())
    assert (answer.rejected, answer.clipped) == (("outside_image",), 0)
    huge = parse(wrap("[-1e308, -1e308, 1e308, 1e308]"), Task.rec, space=CoordinateSpace.REL1000)
    assert huge.boxes[0].xyxy == (0, 0, 640, 480)


def test_an_image_that_does_not_exist() -> None:
    body = '[{"bbox_2d": [1, 2, 3, 4], "label": "a", "image": 1}]'
    assert parse(wrap(body)).rejected == ("bad_image",)
    assert parse(wrap("[1, 2, 3, 4]"), Task.rec, frames=()).status is ParseStatus.NO_BOX


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


@pytest.mark.parametrize("task", [Task.mcq, Task.numeric, Task.yes_no, Task.text, Task.region_label])
def test_tasks_without_boxes_return_the_body(task) -> None:
    answer = parse(wrap(" None. "), task)
    assert (answer.status, answer.body, answer.boxes) == (ParseStatus.OK, "None.", ())
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
    assert answer.num_items == len(answer.boxes) + len(answer.rejected)
    if task in (Task.rec, Task.ovd):
        assert (answer.status is ParseStatus.OK) == bool(answer.boxes)  # no silent empty list
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
