"""Descriptions of objects in a scene, and for each object whether it holds.

A description is clear when no reader could be in doubt about any object: a centre near the middle line is
neither left nor right, and two centres that differ little stand in no relation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groundrl.data.describe import clear_relations, may_hold
from groundrl.data.scene import COLOURS, SHAPES, SceneObject


class PhraseStyle(StrEnum):
    """word: a shape. attribute: colour and shape. position: a shape on one side of the image. relation: a
    shape beside another object. negation: a shape that is not of a colour. riddle: what is meant is said
    indirectly (as LISA's reasoning expressions do)."""

    WORD = "word"
    ATTRIBUTE = "attribute"
    POSITION = "position"
    RELATION = "relation"
    NEGATION = "negation"
    RIDDLE = "riddle"


NOUNS = ("shape", *SHAPES)
SIDES = ("on the left", "on the right", "at the top", "at the bottom")
RELATIONS = ("left of", "right of", "above", "below")
MIDDLE = 1 / 16
"""Half the width of the band about a middle line that belongs to no side, as a share of the image."""
RIDDLES = {
    "the one without corners": "circle",
    "the one with four corners": "square",
    "the one with three corners": "triangle",
    "the one like fire": "red",
    "the one like grass": "green",
    "the one like the sky": "blue",
    "the one like a lemon": "yellow",
    "the one like a plum": "purple",
    "the one like a carrot": "orange",
}
"""What is said, and the shape or colour that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A description and, for each object of the scene, whether it holds (None: in doubt)."""

    text: str
    holds: tuple[bool | None, ...]

    @property
    def clear(self) -> bool:
        return None not in self.holds

    @property
    def count(self) -> int:
        """Objects for which it certainly holds."""
        return sum(one is True for one in self.holds)


def phrases(style: PhraseStyle, objects: list[SceneObject], image_size: int) -> list[Phrase]:
    """Every clear description of the style for the scene, of what is there and of what is not."""
    if style is PhraseStyle.WORD:
        found = [_phrase(shape, [item.shape == shape for item in objects]) for shape in SHAPES]
    elif style is PhraseStyle.ATTRIBUTE:
        names = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
        found = [_phrase(name, [item.name == name for item in objects]) for name in names]
    elif style is PhraseStyle.POSITION:
        found = [_positioned(noun, side, objects, image_size) for noun in NOUNS for side in SIDES]
    elif style is PhraseStyle.RELATION:
        found = _related(objects)
    elif style is PhraseStyle.NEGATION:
        colours = dict.fromkeys(item.colour for item in objects)
        found = [_negated(noun, colour, objects) for noun in NOUNS for colour in colours]
    else:
        found = [
            _phrase(text, [meant in (item.shape, item.colour) for item in objects])
            for text, meant in RIDDLES.items()
        ]
    return [phrase for phrase in found if phrase.clear]


def _phrase(text: str, holds: list[bool | None] | list[bool]) -> Phrase:
    return Phrase(text=text, holds=tuple(holds))


def _is(noun: str, item: SceneObject) -> bool:
    return noun in ("shape", item.shape)


def _positioned(noun: str, side: str, objects: list[SceneObject], image_size: int) -> Phrase:
    axis = 0 if side in SIDES[:2] else 1
    sign = -1 if side in (SIDES[0], SIDES[2]) else 1
    holds: list[bool | None] = []
    for item in objects:
        offset = sign * (item.centre[axis] / image_size - 0.5)
        there = None if abs(offset) <= MIDDLE else offset > 0
        holds.append(there if _is(noun, item) else False)
    return _phrase(f"{noun} {side}", holds)


def _related(objects: list[SceneObject]) -> list[Phrase]:
    """Relations to the objects of the scene whose name is theirs alone."""
    found: list[Phrase] = []
    for anchor in objects:
        if sum(item.name == anchor.name for item in objects) > 1:
            continue
        for shape in SHAPES:
            for relation in RELATIONS:
                holds: list[bool | None] = []
                for item in objects:
                    if item is anchor or item.shape != shape or not may_hold(relation, item, anchor):
                        holds.append(False)
                    else:
                        holds.append(True if relation in clear_relations(item, anchor) else None)
                found.append(_phrase(f"{shape} {relation} the {anchor.name}", holds))
    return found


def _negated(noun: str, colour: str, objects: list[SceneObject]) -> Phrase:
    return _phrase(
        f"{noun} that is not {colour}", [_is(noun, item) and item.colour != colour for item in objects]
    )
