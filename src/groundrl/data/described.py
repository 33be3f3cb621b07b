"""Synthetic twins of the data sets that the sources use: the same kinds of questions about coloured shapes.

shapes_d3       D3: descriptions with relations and negations, some of nothing in the image
shapes_coco     COCO: single words, all of them named in every prompt
shapes_small    COCO's small objects; shapes_single: images with one larger object
shapes_region   one description of one region; shapes_od_region: half COCO, half regions
shapes_ovdeval  OVDEval's aspects colour, position, relationship and negation, a source each
shapes_refcoco  RefCOCO, RefCOCO+ and RefCOCOg together (referring expressions)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from groundrl.config.registry import register
from groundrl.data.base import Split
from groundrl.data.phrases import Phrase, PhraseStyle, phrases
from groundrl.data.scene import Ground, SceneObject
from groundrl.data.world import Asked, SceneConfig, World, check_pair, check_styles, draw_style
from groundrl.errors import ConfigError
from groundrl.types import LabeledBox, Task, Truth

TASKS = (Task.rec, Task.ovd)
SUBSETS = {
    PhraseStyle.ATTRIBUTE: "color",
    PhraseStyle.POSITION: "position",
    PhraseStyle.RELATION: "relationship",
    PhraseStyle.NEGATION: "negation",
}
"""OVDEval's sub-set that a style of description stands for."""


class Names(StrEnum):
    """Which categories an ovd prompt names.

    drawn     some that hold and some that do not (`present`, `absent`)
    all       every word there is
    positive  every word that holds
    one_box   every word that holds for exactly one object
    """

    drawn = "drawn"
    all = "all"
    positive = "positive"
    one_box = "one_box"


@register("dataset", "described")
@dataclass(kw_only=True, slots=True)
class DescribedConfig(SceneConfig):
    """Settings of a world of descriptions.

    task        rec: the one object that a description singles out; ovd: all objects of the named ones
    styles      relative weight of each style of description (see `PhraseStyle`)
    names       ovd: which descriptions a prompt names; all but `drawn` need the style word alone
    present     ovd, drawn: [min, max] descriptions that hold for something
    absent      ovd, drawn: [min, max] descriptions that hold for nothing
    unique      ovd, drawn: those that hold do so for exactly one object
    one_style   ovd, drawn: all descriptions of a prompt are of one style, whose OVDEval sub-set is the
                sample's source
    ground      what scenes are drawn on
    """

    styles: dict[str, float] = field(default_factory=dict[str, float])
    names: Names = Names.drawn
    present: list[int] = field(default_factory=lambda: [1, 2])
    absent: list[int] = field(default_factory=lambda: [0, 1])
    unique: bool = False
    one_style: bool = False
    ground: Ground = Ground.plain

    def __post_init__(self) -> None:
        SceneConfig.__post_init__(self)
        if self.task not in TASKS:
            raise ConfigError(
                "task", "these worlds have no such questions", got=str(self.task), todo="use rec or ovd"
            )
        check_styles(self.styles, [style.value for style in PhraseStyle], needed=True)
        used = [name for name, weight in self.styles.items() if weight > 0]
        if self.names is not Names.drawn and used != [PhraseStyle.WORD]:
            todo = "use styles={word: 1}, or names=drawn"
            raise ConfigError(
                "names", "only the style word has a list of names", got=self.names.value, todo=todo
            )
        if self.one_style and not all(PhraseStyle(name) in SUBSETS for name in used):
            todo = f"use styles among {', '.join(SUBSETS)}, or one_style=false"
            raise ConfigError("one_style", "OVDEval has no sub-set for a style", got=used, todo=todo)
        check_pair("present", self.present, 0)
        check_pair("absent", self.absent, 0)
        if self.present[0] + self.absent[0] < 1:
            raise ConfigError("absent", "a prompt could name nothing", got=list(self.absent), todo="[1, 1]")

    def build(self, split: Split) -> Described:
        return Described(self, split)


class Described(World[DescribedConfig]):
    """The samples of one split of a world."""

    name = "described"
    version = "described-1"

    def ground(self) -> Ground:
        return self.config.ground

    def ask(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        if self.config.task is Task.rec:
            return self._refer(rng, objects)
        return self._drawn(rng, objects) if self.config.names is Names.drawn else self._words(rng, objects)

    def _refer(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        style = PhraseStyle(draw_style(rng, self.config.styles))
        found = [one for one in phrases(style, objects, self.config.image_size) if one.count == 1]
        if not found:
            return None
        phrase = found[int(rng.integers(len(found)))]
        return Asked(question=phrase.text, truth=Truth(boxes=tuple(_boxes([phrase], objects))))

    def _words(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        names = self.config.names
        words = phrases(PhraseStyle.WORD, objects, self.config.image_size)
        if names is Names.positive:
            words = [word for word in words if word.count > 0]
        elif names is Names.one_box:
            words = [word for word in words if word.count == 1]
        return _asked(rng, words, objects) if words else None

    def _drawn(self, rng: np.random.Generator, objects: list[SceneObject]) -> Asked | None:
        config = self.config
        style = draw_style(rng, config.styles)
        chosen: list[Phrase] = []
        for holding, span in ((True, config.present), (False, config.absent)):
            for _ in range(int(rng.integers(span[0], span[1] + 1))):
                own = style if config.one_style else draw_style(rng, config.styles)
                taken = {phrase.text for phrase in chosen}
                found = [
                    phrase
                    for phrase in phrases(PhraseStyle(own), objects, config.image_size)
                    if phrase.text not in taken and self._fits(phrase, holding)
                ]
                if not found:
                    return None
                chosen.append(found[int(rng.integers(len(found)))])
        if not chosen:
            return None
        kind = SUBSETS[PhraseStyle(style)] if config.one_style else ""
        return _asked(rng, chosen, objects, kind)

    def _fits(self, phrase: Phrase, holding: bool) -> bool:
        if not holding:
            return phrase.count == 0
        return phrase.count == 1 if self.config.unique else phrase.count > 0


def _asked(
    rng: np.random.Generator, chosen: list[Phrase], objects: list[SceneObject], kind: str = ""
) -> Asked:
    order = [chosen[i] for i in rng.permutation(len(chosen))]
    truth = Truth(boxes=tuple(_boxes(order, objects)))
    return Asked(targets=tuple(phrase.text for phrase in order), truth=truth, kind=kind)


def _boxes(chosen: list[Phrase], objects: list[SceneObject]) -> list[LabeledBox]:
    """The boxes of each description in turn, from left to right."""
    return [
        LabeledBox(xyxy=xyxy, label=phrase.text)
        for phrase in chosen
        for xyxy in sorted(item.xyxy for item, holds in zip(objects, phrase.holds, strict=True) if holds)
    ]
