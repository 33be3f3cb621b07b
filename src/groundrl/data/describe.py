"""Ways to refer to one object of a scene, and whether the words single it out."""

from __future__ import annotations

from enum import StrEnum

from groundrl.data.scene import SceneObject


class Style(StrEnum):
    WORD = "word"
    ATTRIBUTE = "attribute"
    RELATION = "relation"
    NEGATION = "negation"


def describe(style: Style, target: SceneObject, objects: list[SceneObject]) -> str | None:
    """A phrase that holds for `target` and for no other object; None when this style has none."""
    others = [item for item in objects if item is not target]
    if style is Style.WORD:
        return target.shape if all(item.shape != target.shape for item in others) else None
    if style is Style.ATTRIBUTE:
        return target.name if all(item.name != target.name for item in others) else None
    if style is Style.NEGATION:
        colours = {item.colour for item in others}
        if len(colours) != 1 or target.colour in colours:
            return None
        return f"shape that is not {colours.pop()}"
    for other in others:
        if sum(item.name == other.name for item in objects) > 1:
            continue
        for relation in clear_relations(target, other):
            if not any(item.shape == target.shape and may_hold(relation, item, other) for item in others):
                return f"{target.shape} {relation} the {other.name}"
    return None


def may_hold(relation: str, a: SceneObject, b: SceneObject) -> bool:
    """Whether a reader could take the relation to hold: the order of the centres alone."""
    dx, dy = a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]
    return {"left of": dx < 0, "right of": dx > 0, "above": dy < 0, "below": dy > 0}[relation]


def clear_relations(a: SceneObject, b: SceneObject) -> list[str]:
    """How a stands to b; a direction counts when the centres differ clearly along it."""
    if a is b:
        return []
    margin = min(a.xyxy[2] - a.xyxy[0], b.xyxy[2] - b.xyxy[0]) / 2
    dx, dy = a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]
    named = (
        ("left of", dx < -margin),
        ("right of", dx > margin),
        ("above", dy < -margin),
        ("below", dy > margin),
    )
    return [name for name, holds in named if holds]
