"""Writes a synthetic detection world as COCO files, for trying `dataset=coco` without a download.

    python scripts/shapes_to_coco.py outputs/coco --samples 200 --heldout 50 dataset.objects=[1,4]
    python train.py reward=odlength dataset=coco dataset.mode=positive \
        dataset.path=outputs/coco/instances_train.json \
        dataset.heldout_path=outputs/coco/instances_heldout.json

Words are settings of `dataset=shapes_ovd`; every object of a scene is annotated.
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
from groundrl.data.scene import COLOURS, SHAPES
from groundrl.data.shapes import ShapesConfig
from groundrl.errors import ConfigError
from groundrl.types import Sample

NAMES = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)


def write_coco(folder: Path, config: ShapesConfig, split: Split, count: int) -> Path:
    """Write the first `count` scenes of a split; the path of the instances file. Ids count from 1."""
    source = replace(config, none_fraction=0.0, train_size=None).build(split)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    (folder / split).mkdir(parents=True, exist_ok=True)
    for index in range(count):
        sample = source.sample(index)
        name = f"{split}/{index + 1:06d}.png"
        sample.images[0].save(folder / name)
        width, height = sample.images[0].size
        images.append({"id": index + 1, "file_name": name, "width": width, "height": height})
        annotations += _annotations(sample, index + 1, len(annotations) + 1)
    categories = [{"id": number, "name": name} for number, name in enumerate(NAMES, start=1)]
    file = folder / f"instances_{split}.json"
    content = {"images": images, "annotations": annotations, "categories": categories}
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def _annotations(sample: Sample, image_id: int, first_id: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number, box in enumerate(sample.truth.boxes, start=first_id):
        x1, y1, x2, y2 = box.xyxy
        made.append(
            {
                "id": number,
                "image_id": image_id,
                "category_id": NAMES.index(box.label) + 1,
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "area": (x2 - x1) * (y2 - y1),
                "iscrowd": 0,
            }
        )
    return made


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="write a synthetic detection world as COCO files")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--heldout", type=int, default=50)
    parser.add_argument("words", nargs="*", help="settings of dataset=shapes_ovd")
    options = parser.parse_intermixed_args(words)
    config = compose_run(["reward=ap", "dataset=shapes_ovd", *options.words]).dataset
    if not isinstance(config, ShapesConfig):
        raise ConfigError("dataset", "must stay shapes_ovd", todo="give only its settings")
    for split, count in ((Split.TRAIN, options.samples), (Split.HELDOUT, options.heldout)):
        print(write_coco(options.folder, config, split, count))
    return 0


if __name__ == "__main__":
    sys.exit(guard(main, sys.argv[1:]))
