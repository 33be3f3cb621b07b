"""Repetition penalty: minus the share of n-grams that were written before (VLM-R1 blog of 2025-03-24).

    r = -(1 - distinct / all)   in [-1, 0]

An answer that lists items is judged by them: one item, as its box and label, is one gram (`item_n` in a row
where that is more than 1). Only exact repeats count: a jitter of one pixel evades it, which is what the
duplicate metrics are for. Any other text is judged by its lower-cased words, `text_n` in a row. Fewer than n
of them are worth 0. Nothing but the item list is looked at where there is one.

Deviations of `paper` from the released code, all of which `released_code` takes back: the items are those of
the answer as every other reward reads it, refused ones included, and what else an item holds does not make it
another one; the same coordinates written 1, 1.0 or "1" are the same, and labels are normalised. The released
code takes the first json fence of the whole text, else its first fence, else a bracketed list of objects with
bbox_2d and label. It also tries to repair broken JSON; neither form does here, so such text counts by words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.parsing.fences import find_payload
from groundrl.parsing.payload import MAX_LABEL_CHARS, load_items, number
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.released import ANY_FENCE, JSON_FENCE, first_block, load_json, skip_space
from groundrl.types import Rollout, Sample, Scored, Task


def repeated_share(grams: Sequence[str], n: int) -> float:
    """Share in [0, 1) of the runs of `n` that occurred before; 0 for fewer than `n`."""
    runs = list(zip(*(grams[first:] for first in range(n)), strict=False))
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def _item_key(value: object) -> str:
    """Place, label and image of an item, equal for items that mean the same."""
    place, label, image = value, None, 0.0
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        place, label = fields.get("bbox_2d", fields.get("point_2d")), fields.get("label")
        image = fields.get("image", 0.0)
    if isinstance(place, list):
        entries = cast("list[object]", place)
        read = [number(entry) for entry in entries]
        place = [one if isinstance(one, float) else raw for one, raw in zip(read, entries, strict=True)]
    if isinstance(label, str) and len(label) <= MAX_LABEL_CHARS:
        label = normalise_label(label)
    return json.dumps([place, label, image], sort_keys=True)


def _answer_items(answer: Answer) -> list[str]:
    """Keys of the items of the answer; none where it lists none."""
    if answer.body is None:
        return []
    salvage = answer.status is ParseStatus.SALVAGED
    return [_item_key(value) for value in load_items(find_payload(answer.body).text, salvage=salvage).values]


def _bracketed(text: str) -> str | None:
    """The first list that opens with an object, up to the first end of one after a bbox_2d and a label."""
    start = text.find("[")
    while start >= 0 and not text.startswith("{", skip_space(text, start + 1)):
        start = text.find("[", start + 1)
    box = text.find('"bbox_2d"', start) if start >= 0 else -1
    label = text.find('"label"', box) if box >= 0 else -1
    closing = text.find("}", label) if label >= 0 else -1
    while closing >= 0:
        stop = skip_space(text, closing + 1)
        if text.startswith("]", stop):
            return text[start : stop + 1]
        closing = text.find("}", closing + 1)
    return None


def _released_items(text: str) -> list[str]:
    """Keys of the items that the released code finds in a completion."""
    found = first_block(text, JSON_FENCE)
    found = first_block(text, ANY_FENCE) if found is None else found
    document = load_json(found or _bracketed(text) or "")
    if not isinstance(document, list):
        return []
    items = [
        cast("dict[str, object]", item) for item in cast("list[object]", document) if isinstance(item, dict)
    ]
    return [
        json.dumps([item["bbox_2d"], item["label"]])
        for item in items
        if "bbox_2d" in item and "label" in item
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """detail: `items`, the number of items that were compared; 0 where words were."""

    tasks = frozenset(Task)
    needs = ()
    pays_truth = False

    item_n: int = 1
    text_n: int = 6
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        released = self.compat is Compat.released_code
        items = _released_items(rollout.text) if released else _answer_items(context.answer)
        if items:
            share = repeated_share(items, self.item_n)
        else:
            share = repeated_share(rollout.text.lower().split(), self.text_n)
        return Scored(-share, {"items": float(len(items))})


@register("reward/term", "repetition")
@dataclass(kw_only=True, slots=True)
class RepetitionConfig(TermConfig):
    """`item_n`, `text_n`: length of the runs of items and of words; `compat`: whose reading of the answer."""

    item_n: int = 1
    text_n: int = 6
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        for name, n in (("item_n", self.item_n), ("text_n", self.text_n)):
            if n < 1:
                raise ConfigError(name, "must be >= 1", got=n, todo="use e.g. 1 for items, 6 for words")

    def build(self) -> Repetition:
        return Repetition(item_n=self.item_n, text_n=self.text_n, compat=self.compat)
