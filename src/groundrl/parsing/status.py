"""What became of an answer, and why an item of it was refused. Both are counted as metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import final


class ParseStatus(StrEnum):
    """How the parse of one rollout ended.

    ok              the answer was read: for boxes at least one item, and each of them valid (rec: one item)
    item_rejected   read, but at least one item was refused; the reasons stand beside the items that were kept
    salvaged        cut or broken JSON of which the complete leading items were kept (only where the parser is
                    told to do that)
    none            a well-formed "nothing there" (see `is_none`)
    no_answer_tag   no complete answer pair
    duplicate_tags  a think or answer tag occurs more than once
    tag_order       the tags are there once, but nested or out of order
    empty           nothing but whitespace between the answer tags
    bad_json        the payload is not JSON, or is nested too deeply to be an answer
    no_box          valid JSON that holds no item at all, such as a number or a text
    unreadable      not of the asked kind: no yes or no, no letter, no number, or several that disagree
    several_boxes   rec: more than one item, so it is not said which one is meant
    truncated       the length limit was reached before the answer pair was complete
    """

    OK = "ok"
    ITEM_REJECTED = "item_rejected"
    SALVAGED = "salvaged"
    NONE = "none"
    NO_ANSWER_TAG = "no_answer_tag"
    DUPLICATE_TAGS = "duplicate_tags"
    TAG_ORDER = "tag_order"
    EMPTY = "empty"
    BAD_JSON = "bad_json"
    NO_BOX = "no_box"
    UNREADABLE = "unreadable"
    SEVERAL_BOXES = "several_boxes"
    TRUNCATED = "truncated"


@final
class RejectReason(StrEnum):
    """Why one item of an otherwise readable answer was refused.

    not_an_item      neither an object nor a list of coordinates
    missing_box      an object without `bbox_2d` (points: `point_2d`), or one that is not a list
    wrong_count      not exactly four coordinates (points: two)
    not_a_number     a coordinate that is no number (booleans are none, "12" is one)
    bad_number       a number that is not finite, or written with more than 64 characters
    swapped_corners  x1 > x2 or y1 > y2
    zero_area        x1 = x2 or y1 = y2
    no_label         ovd: label absent, not a string, or blank
    long_label       a label of more than 1000 characters
    bad_image        an image index that does not exist
    outside_image    nothing is left after clipping to the image
    several_boxes    rec: a valid box of an answer with several items
    incomplete       what a cut answer ended with, where the leading items were kept
    """

    NOT_AN_ITEM = "not_an_item"
    MISSING_BOX = "missing_box"
    WRONG_COUNT = "wrong_count"
    NOT_A_NUMBER = "not_a_number"
    BAD_NUMBER = "bad_number"
    SWAPPED_CORNERS = "swapped_corners"
    ZERO_AREA = "zero_area"
    NO_LABEL = "no_label"
    LONG_LABEL = "long_label"
    BAD_IMAGE = "bad_image"
    OUTSIDE_IMAGE = "outside_image"
    SEVERAL_BOXES = "several_boxes"
    INCOMPLETE = "incomplete"
