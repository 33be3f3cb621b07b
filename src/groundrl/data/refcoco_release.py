"""The original release of RefCOCO/+/g: referred objects in a pickle, their boxes in a COCO instances file.

Format: lichengunc/refer, refer.py at 2fe1dfe: refs(SPLIT_BY).p is a list of objects with ref_id, ann_id,
image_id, split and sentences (each with sent_id, sent, raw, tokens); the box is that of annotation ann_id in
instances.json, and the image's name is the one there (a ref's own file_name carries the annotation id). The
question is `sent`.

Assumed: the same list may stand in a .json file (RefGTA, which has the same structure).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from groundrl.data.coco_file import CocoEntry, read_coco
from groundrl.data.records import read_records
from groundrl.data.rows import Row
from groundrl.data.unpickle import load_plain
from groundrl.errors import DataError
from groundrl.types import LabeledBox, Task

NEEDED = ("ref_id", "ann_id", "sentences", "split")


class Ref(NamedTuple):
    """One referred object as it stands in the file, counted from 1."""

    number: int
    content: object


class Release:
    """The refs of one file and the annotations they point at."""

    def __init__(self, file: Path, instances: Path, *, task: Task, first_only: bool) -> None:
        """Raises DataError for a file that is not of the release."""
        self.file = file
        self.task = task
        self.first_only = first_only
        self.refs = _read_refs(file)
        self.coco = read_coco(instances)
        self._annotations: dict[object, CocoEntry] = {
            annotation.get("id"): CocoEntry(number=entry.number, image=entry.image, annotations=[annotation])
            for entry in self.coco.entries
            for annotation in entry.annotations
            if isinstance(annotation.get("id"), (int, str))
        }

    def refs_of(self, split: str) -> list[Ref]:
        """The refs of a split, and those too broken to have one. Raises DataError for an unknown split."""
        found = {_split(ref): None for ref in self.refs}
        if split not in found:
            known = ", ".join(name for name in found if name) or "none"
            problem = f"has no refs of split {split!r}; its splits: {known}"
            raise DataError(self.file, problem, todo="set dataset.train_split and dataset.heldout_split")
        return [ref for ref in self.refs if _split(ref) in (split, None)]

    def rows(self, item: object) -> Iterator[Row]:
        """One row for each sentence of a ref. Raises DataError naming it."""
        ref = cast("Ref", item)
        if not isinstance(ref.content, dict):
            raise self._bad(ref, f"is a {type(ref.content).__name__}, not an object")
        fields = cast("dict[str, Any]", ref.content)
        if missing := [key for key in NEEDED if key not in fields]:
            raise self._bad(ref, f"has no `{missing[0]}`")
        if not isinstance(fields["split"], str):
            raise self._bad(ref, f"has split {fields['split']!r}, which is no text")
        own = fields["ann_id"]
        if type(own) not in (int, str) or own not in self._annotations:
            raise self._bad(ref, f"annotation {own!r} is not in {self.coco.file.name}")
        image = self.coco.image(self._annotations[own])
        if not image.instances:
            raise self._bad(ref, f"annotation {own!r} is a crowd region, not one object")
        sentences = fields["sentences"]
        if not isinstance(sentences, list) or not sentences:
            raise self._bad(ref, "`sentences` must be a list with at least one sentence")
        for place, sentence in enumerate(sentences[:1] if self.first_only else sentences):
            text: Any = sentence.get("sent") if isinstance(sentence, dict) else None
            if not isinstance(text, str) or not text.strip():
                raise self._bad(ref, f"sentence {place + 1} has no text `sent`")
            yield Row(
                number=ref.number,
                id=f"{self.file.stem}:{fields['ref_id']}:{place}",
                task=self.task,
                images=(image.file_name,),
                question=text.strip(),
                boxes=(LabeledBox(xyxy=image.instances[0].xyxy),),
                key=image.file_name,
            )

    def _bad(self, ref: Ref, problem: str) -> DataError:
        return DataError(self.file, problem, row=ref.number, todo="see docs/howto/data/refcoco.md")


def _split(ref: Ref) -> str | None:
    """The split of a ref; None where it names none."""
    name: Any = ref.content.get("split") if isinstance(ref.content, dict) else None
    return name if isinstance(name, str) else None


def _read_refs(file: Path) -> list[Ref]:
    if file.suffix.lower() == ".json":
        return [Ref(record.number, record.value) for record in read_records(file)]
    content = load_plain(file)
    if not isinstance(content, list):
        problem = f"holds a {type(content).__name__} at the top, expected a list of refs"
        raise DataError(file, problem, todo="give refs(SPLIT_BY).p of the release")
    return [Ref(number, one) for number, one in enumerate(cast("list[object]", content), start=1)]
