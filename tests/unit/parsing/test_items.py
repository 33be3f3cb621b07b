"""Items of a payload: values, and a reason for every refusal."""

import json
import sys

import pytest

from groundrl.parsing.boxes import ItemScan, read_boxes, read_points
from groundrl.parsing.payload import is_none
from groundrl.parsing.status import ParseStatus, RejectReason
from groundrl.types import LabeledBox, LabeledPoint

GOOD = {"bbox_2d": [1, 2, 3, 4], "label": "dog"}
BOX = LabeledBox(xyxy=(1.0, 2.0, 3.0, 4.0), label="dog", image=0)


def read(payload, label_required=True, salvage=False) -> ItemScan:
    return read_boxes(payload, label_required=label_required, salvage=salvage)


@pytest.mark.parametrize("text", ["None", "none", "NONE.", " none. ", "[]", "[ \n]"])
def test_none(text) -> None:
    assert is_none(text)
    assert read(text).status is ParseStatus.NONE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no objects",
        "None of them",
        "none..",
        "null",
        '"None"',
        "{}",
        "[[]]",
        "[",
        "]",
        "[,]",
        "non\u0435",
    ],
)
def test_not_none(text) -> None:
    assert not is_none(text)
    assert read(text).status is not ParseStatus.NONE


@pytest.mark.parametrize("payload", [GOOD, [GOOD]])
def test_an_object_counts_as_a_list_of_one(payload) -> None:
    scan = read(json.dumps(payload))
    assert (scan.status, scan.items, scan.rejected) == (ParseStatus.OK, (BOX,), ())


@pytest.mark.parametrize(
    ("numbers", "xyxy"),
    [
        ("10.5, 20, 30, 40", (10.5, 20, 30, 40)),
        ("-5, -1e1, 3, 4", (-5, -10, 3, 4)),
        ('"1", " 2 ", "3.5", "4"', (1, 2, 3.5, 4)),
        ("0, 0, 1e308, 1", (0, 0, 1e308, 1)),
        (f"0, 0, 1, {'9' * 64}", (0, 0, 1, float("9" * 64))),
    ],
)
def test_numbers(numbers, xyxy) -> None:
    for payload in (f"[{numbers}]", f"[[{numbers}]]", f'{{"bbox_2d": [{numbers}]}}'):
        scan = read(payload, label_required=False)
        assert [box.xyxy for box in scan.items] == [xyxy]


@pytest.mark.parametrize(
    ("bbox", "reason"),
    [
        ("[1, 2, 3]", RejectReason.WRONG_COUNT),
        ("[1, 2, 3, 4, 5]", RejectReason.WRONG_COUNT),
        ("[]", RejectReason.WRONG_COUNT),
        ("[[1, 2], [3, 4]]", RejectReason.WRONG_COUNT),
        ("null", RejectReason.MISSING_BOX),
        ("7", RejectReason.MISSING_BOX),
        ('"1, 2, 3, 4"', RejectReason.MISSING_BOX),
        ("[1, 2, 3, null]", RejectReason.NOT_A_NUMBER),
        ("[1, 2, 3, true]", RejectReason.NOT_A_NUMBER),
        ("[1, 2, 3, [4]]", RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, "four"]', RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, "nan"]', RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, "1_0"]', RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, "\u0664"]', RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, "1-"]', RejectReason.NOT_A_NUMBER),
        ('[1, 2, 3, ""]', RejectReason.NOT_A_NUMBER),
        ("[1, 2, 3, NaN]", RejectReason.BAD_NUMBER),
        ("[1, 2, 3, Infinity]", RejectReason.BAD_NUMBER),
        ("[1, 2, 3, 1e309]", RejectReason.BAD_NUMBER),
        ('[1, 2, 3, "1e309"]', RejectReason.BAD_NUMBER),
        (f"[1, 2, 3, {'9' * 100_000}]", RejectReason.BAD_NUMBER),
        (f'[1, 2, 3, "{"9" * 100_000}"]', RejectReason.BAD_NUMBER),
        (f"[1, 2, 3, 4.{'9' * 100_000}]", RejectReason.BAD_NUMBER),
        ("[3, 2, 1, 4]", RejectReason.SWAPPED_CORNERS),
        ("[1, 4, 3, 2]", RejectReason.SWAPPED_CORNERS),
        ("[5, 5, 5, 5]", RejectReason.ZERO_AREA),
        ("[5, 5, 9, 5]", RejectReason.ZERO_AREA),
    ],
)
def test_a_bad_box_is_refused_with_its_reason_and_spares_the_others(bbox, reason) -> None:
    bad = f'{{"bbox_2d": {bbox}, "label": "cat"}}'
    scan = read(f"[{bad}, {json.dumps(GOOD)}]")
    assert (scan.status, scan.items, scan.rejected) == (ParseStatus.ITEM_REJECTED, (BOX,), (reason,))
    alone = read(bad)
    assert (alone.status, alone.items, alone.rejected) == (ParseStatus.ITEM_REJECTED, (), (reason,))


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ('"cat"', RejectReason.NOT_AN_ITEM),
        ("null", RejectReason.NOT_AN_ITEM),
        ("{}", RejectReason.MISSING_BOX),
        ('{"bbox": [1, 2, 3, 4], "label": "cat"}', RejectReason.MISSING_BOX),
        ('{"bbox_2d": [1, 2, 3, 4]}', RejectReason.NO_LABEL),
        ('{"bbox_2d": [1, 2, 3, 4], "label": null}', RejectReason.NO_LABEL),
        ('{"bbox_2d": [1, 2, 3, 4], "label": 7}', RejectReason.NO_LABEL),
        ('{"bbox_2d": [1, 2, 3, 4], "label": " \\n"}', RejectReason.NO_LABEL),
        ("[1, 2, 3, 4]", RejectReason.NO_LABEL),
        ('{"bbox_2d": [1, 2, 3, 4], "label": "cat", "image": -1}', RejectReason.BAD_IMAGE),
        ('{"bbox_2d": [1, 2, 3, 4], "label": "cat", "image": 0.5}', RejectReason.BAD_IMAGE),
        ('{"bbox_2d": [1, 2, 3, 4], "label": "cat", "image": "0"}', RejectReason.BAD_IMAGE),
        ('{"bbox_2d": [1, 2, 3, 4], "label": "cat", "image": 1e999}', RejectReason.BAD_IMAGE),
        (f'{{"bbox_2d": [1, 2, 3, 4], "label": "{"x" * 1001}"}}', RejectReason.LONG_LABEL),
    ],
)
def test_a_bad_item_is_refused_with_its_reason(item, reason) -> None:
    scan = read(f"[{item}, {json.dumps(GOOD)}]")
    assert (scan.items, scan.rejected) == ((BOX,), (reason,))


@pytest.mark.parametrize("label", ['a "red" car', "Café", "```json", "<b>", "\\ud800", "[{", 'x" : [1], "'])
def test_labels_keep_their_text(label) -> None:
    payload = json.dumps([{"bbox_2d": [1, 2, 3, 4], "label": label}])
    assert read(payload).items[0].label == label


def test_a_lone_surrogate_becomes_storable() -> None:
    label = read('[{"bbox_2d": [1, 2, 3, 4], "label": "a\\ud800"}]').items[0].label
    assert label.encode("utf-8") == b"a?"


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        ("", ParseStatus.EMPTY),
        (" \n", ParseStatus.EMPTY),
        ('[{"bbox', ParseStatus.BAD_JSON),
        ("[1, 2, 3, 4", ParseStatus.BAD_JSON),
        ("the box [1, 2, 3, 4]", ParseStatus.BAD_JSON),
        ("[1, 2, 3, 4] [1, 2, 3, 4]", ParseStatus.BAD_JSON),
        ("[1, 2, 3, 4,]", ParseStatus.BAD_JSON),
        ("{'bbox_2d': [1, 2, 3, 4]}", ParseStatus.BAD_JSON),
        ("\ufeff[1, 2, 3, 4]", ParseStatus.BAD_JSON),
        ("7", ParseStatus.NO_BOX),
        ("null", ParseStatus.NO_BOX),
        ('"[1, 2, 3, 4]"', ParseStatus.NO_BOX),
        ("{}", ParseStatus.ITEM_REJECTED),
    ],
)
def test_status_of_unusable_payloads(payload, status) -> None:
    scan = read(payload)
    assert (scan.status, scan.items) == (status, ())


def test_a_list_of_scalars_is_one_bare_box_and_a_list_of_words_is_many_items() -> None:
    assert read("[1, 2, 3]").rejected == (RejectReason.WRONG_COUNT,)
    assert read('["cat", "dog"]').rejected == (RejectReason.NOT_AN_ITEM,) * 2


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_nesting_does_not_reach_the_stack(opening) -> None:
    depth = 10 * sys.getrecursionlimit()
    closing = {"[": "]", '{"a":': "}", '[{"a":': "}]"}[opening]
    for payload in (opening * depth, opening * depth + "1" + closing * depth):
        assert read(payload).status is ParseStatus.BAD_JSON
    assert read("[" * 32 + "]" * 32).status is ParseStatus.ITEM_REJECTED


def test_brackets_inside_strings_are_not_nesting() -> None:
    label = "[" * 500 + '\\"' + "{" * 400
    payload = '[{"bbox_2d": [1, 2, 3, 4], "label": "' + label + '"}]'
    assert read(payload).status is ParseStatus.OK


DOG, CUT = json.dumps(GOOD), '{"bbox_2d": [1, 2'


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (f"[{DOG}, {DOG}, {CUT}", 2),
        (f"[{DOG}, {DOG},", 2),
        (f"[{DOG}, {DOG}", 2),
        (f"[{DOG} {DOG}", 0),
        (f"[{DOG}, {CUT}", 1),
        (f"[{CUT}", 0),
        ("[[1, 2, 3, 4], [1, 2", 1),
        ("[1, 2, 3, 4", 0),
        (DOG[:-1], 0),
        (f"here: [{DOG}", 0),
        (f"[{DOG}] and [{DOG}", 0),
    ],
)
def test_salvage_keeps_complete_leading_items_and_counts_the_rest(payload, count) -> None:
    assert read(payload, label_required=False).status is ParseStatus.BAD_JSON
    scan = read(payload, label_required=False, salvage=True)
    assert [item.xyxy for item in scan.items] == [BOX.xyxy] * count
    if count:
        assert (scan.status, scan.rejected) == (ParseStatus.SALVAGED, (RejectReason.INCOMPLETE,))
    else:
        assert scan.status is ParseStatus.BAD_JSON


def test_salvage_changes_nothing_that_can_be_read() -> None:
    for payload in (DOG, f"[{DOG}, [1, 2]]", "None", "[]", ""):
        assert read(payload) == read(payload, salvage=True)


def test_a_label_full_of_brackets_does_not_mislead_the_salvage() -> None:
    label = json.dumps({"bbox_2d": [1, 2, 3, 4], "label": '}]}, {"x": ['})
    scan = read(f"[{label}, {label[:-3]}", salvage=True)
    assert [item.label for item in scan.items] == ['}]}, {"x": [']


def test_points() -> None:
    one = LabeledPoint(xy=(1.5, 2.0), label="", image=0)
    for payload in ("[1.5, 2]", "[[1.5, 2]]", '{"point_2d": [1.5, "2"]}'):
        assert read_points(payload).items == (one,)
    scan = read_points('[{"point_2d": [1, 2, 3]}, {"bbox_2d": [1, 2]}, {"point_2d": [0, NaN]}]')
    assert (scan.status, scan.items) == (ParseStatus.ITEM_REJECTED, ())
    assert scan.rejected == (
        RejectReason.WRONG_COUNT,
        RejectReason.MISSING_BOX,
        RejectReason.BAD_NUMBER,
    )


def test_an_image_is_read_with_and_without_a_label() -> None:
    """Also where the item has but two keys."""
    assert read('{"bbox_2d": [1, 2, 3, 4], "image": 1}', label_required=False).items[0].image == 1
    assert read('{"bbox_2d": [1, 2, 3, 4], "label": "dog", "image": 1.0}').items[0].image == 1


@pytest.mark.parametrize("digits", [63, 64, 65, 300, 400, 4300, 5000])
def test_long_integers(digits) -> None:
    scan = read(f"[0, 0, 1, {'9' * digits}]", label_required=False)
    assert (scan.rejected == ()) is (digits <= 64)
    assert scan.rejected in ((), (RejectReason.BAD_NUMBER,))


def test_nesting_is_counted_outside_strings_only() -> None:
    deep = "[" * 40
    assert read(f'[{{"bbox_2d": [1, 2, 3, 4], "label": "{deep}"}}]').items[0].label == deep
    escaped = f'[{{"bbox_2d": [1, 2, 3, 4], "label": "\\\\"{deep}\\\\""}}]'.replace("\\\\", "\\")
    assert read(escaped).items[0].label == f'"{deep}"'
    assert read(f'["{deep}", {"[" * 32}{"]" * 32}]').status is ParseStatus.BAD_JSON
    wide = ", ".join([json.dumps(GOOD)] * 500)
    assert len(read(f"[{wide}]").items) == 500
