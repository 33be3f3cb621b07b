"""Writes a data set of files in the JSONL format of VLM-R1, for trainers that read it and to compare with.

    python scripts/coco_to_vlm_r1.py outputs/vlm_r1 reward=odlength dataset=coco dataset.mode=positive \
        dataset.path=outputs/coco/instances_train.json \
        dataset.heldout_path=outputs/coco/instances_heldout.json

Any data set that is read from one file a split will do (coco, d3, refcoco, ovdeval, qa). Pictures stay where
they are: the words to read the rows with are printed. The human turn is the question in the words of the
prompt, without the instruction on the format and the system message, which a run on the rows adds.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.data.base import Split
from groundrl.data.rows import RowSamples
from groundrl.data.turns import MARK
from groundrl.errors import ConfigError, DataError
from groundrl.prompting.prompt import Prompt
from groundrl.run_config import RunConfig
from groundrl.types import ImagePart, LabeledBox, Sample, Task

METHODS = {
    Task.ovd: "odLength",
    Task.rec: "rec",
    Task.mcq: "mcq",
    Task.yes_no: "yes_no",
    Task.numeric: "numeric",
    Task.text: "all_match",
}
"""`accu_reward_method` of a task, as `dataset=vlm_r1` reads it."""


def write_rows(folder: Path, config: RunConfig, split: Split) -> tuple[Path, Path]:
    """Write a split; the JSONL file, and the folder that its image paths are relative to.

    Raises ConfigError for a data set that the format cannot hold, DataError for a row that it cannot.
    """
    source = config.dataset.build(split)
    if not isinstance(source, RowSamples):
        problem = "is not read from one file with a row a sample"
        raise ConfigError(
            "dataset", problem, todo="e.g. dataset=coco; make one with scripts/shapes_to_coco.py"
        )
    if unknown := source.tasks() - METHODS.keys():
        raise ConfigError("task", "has no form in VLM-R1's JSONL", got=str(min(unknown)))
    prompt = replace(config.prompt, suffix="", system="").build()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{split}.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for index in range(len(source.rows)):
            out.write(json.dumps(_row(source, index, prompt), ensure_ascii=False) + "\n")
    return file, source.root


def _row(source: RowSamples, index: int, prompt: Prompt) -> dict[str, Any]:
    row, sample = source.rows[index], source.sample(index)
    if not all(isinstance(image, str) for image in row.images):
        raise DataError(source.file, "holds the image itself", row=row.number, todo="save it as a file")
    turns = [
        {"from": "human", "value": _question(source, row.number, sample, prompt)},
        {"from": "gpt", "value": _solution(sample)},
    ]
    method = METHODS[sample.task]
    return {"id": row.id, "image": list(row.images), "conversations": turns, "accu_reward_method": method}


def _question(source: RowSamples, number: int, sample: Sample, prompt: Prompt) -> str:
    messages = prompt.messages(sample)
    parts = [part for message in messages for part in message.parts]
    if len(messages) != 1 or any(MARK in part.text for part in parts if not isinstance(part, ImagePart)):
        problem = f"is a longer conversation, or its question holds {MARK}"
        raise DataError(source.file, problem, row=number, todo="remove the row")
    return "".join(MARK if isinstance(part, ImagePart) else part.text for part in parts)


def _solution(sample: Sample) -> str:
    """Boxes as they are, not rounded as in an answer."""
    boxes = sample.truth.boxes
    if sample.task is Task.rec:
        return _json(list(boxes[0].xyxy))
    if sample.task is Task.ovd:
        return f"```json\n{_json([_item(box) for box in boxes])}\n```" if boxes else "None"
    return sample.truth.answer or ""


def _item(box: LabeledBox) -> dict[str, Any]:
    image = {"image": box.image} if box.image else {}
    return {"bbox_2d": list(box.xyxy), "label": box.label, **image}


def _json(value: Any) -> str:
    """JSON in which a label cannot be taken for a tag of the answer."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="write a data set in the JSONL format of VLM-R1")
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*", help="the words of a run with the data set")
    options = parser.parse_intermixed_args(words)
    config = compose_run(options.words)
    train, images = write_rows(options.folder, config, Split.TRAIN)
    held, others = write_rows(options.folder, config, Split.HELDOUT)
    print(f"dataset=vlm_r1 dataset.path={train} dataset.images={images}")
    print(f"dataset.heldout_path={held} dataset.heldout_images={others}")
    return 0


if __name__ == "__main__":
    sys.exit(guard(main, sys.argv[1:]))
