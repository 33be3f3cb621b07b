"""`dataset=odinw`: a folder of detection data sets, laid out as ODinW (Object Detection in the Wild) is.

Layout: microsoft/GLIP, configs/odinw_13 at f91be1a and configs/odinw_35 at 91f2092: the annotations of a
split are DATA_SET/.../valid/annotations_without_background.json (train, test, mini_val alike) and the
pictures lie beside them; open-mmlab/mmdetection at b3b2377, configs/glip/odinw, reads the same folders.
pistols, dice, boggleBoards and selfdrivingCar deviate: export/val_annotations_without_background.json.
Each file is a COCO instances file (coco_file.py).

GLIP evaluates on `valid`, except EgoHands and VehiclesOpenImages: on `mini_val`, where MMDetection takes
`valid`. MMDetection reads new_annotations_without_background.json of ChessPieces, CottontailRabbits and
NorthAmericaMushrooms.

Assumed: a file's own category names are asked for (GLIP's configs may override them); the release itself was
not at hand, only the configs that read it.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath

from groundrl.config.registry import register
from groundrl.data.base import DatasetConfig, Split
from groundrl.data.coco import CocoConfig, CocoReader
from groundrl.data.coco import Mode as CocoMode
from groundrl.data.coco_file import read_coco
from groundrl.data.rows import OnError, RowSamples, Skips
from groundrl.data.subsets import Subsets
from groundrl.errors import ConfigError, NoFileError

logger = logging.getLogger(__name__)

VALID = ("**/valid/annotations_without_background.json", "**/export/val_annotations_without_background.json")
ASSUMED = "%s: assumed to hold COCO files whose own category names are asked for (docs/howto/data/odinw.md)"


class Mode(StrEnum):
    """Which names a sample asks for.

    all       every category of its data set
    positive  those present in the image
    """

    all = "all"
    positive = "positive"


@register("dataset", "odinw")
@dataclass(kw_only=True, slots=True)
class OdinwConfig(DatasetConfig):
    """Several COCO files below one folder, one ovd sample an image.

    path              the folder
    patterns          which files below it are the training split: paths with *, ? and ** (any folders)
    heldout_patterns  the same for the held-out split
    mode              which names are asked for
    on_error          raise or skip (counted) where an image cannot be used
    """

    path: str = "???"
    patterns: list[str] = field(default_factory=lambda: list(VALID))
    heldout_patterns: list[str] = field(default_factory=lambda: list(VALID))
    mode: Mode = Mode.all
    on_error: OnError = OnError.raise_

    def __post_init__(self) -> None:
        DatasetConfig.__post_init__(self)
        for key in ("patterns", "heldout_patterns"):
            given: list[str] = getattr(self, key)
            if not given:
                raise ConfigError(key, "is empty, so nothing would be found", todo=f"e.g. [{VALID[0]}]")
            for one in given:
                parts = PurePosixPath(one).parts
                if not parts or parts[0] == "/" or any("**" in part and part != "**" for part in parts):
                    problem = "is no pattern of paths below the folder, with ** for whole folders only"
                    raise ConfigError(key, problem, got=one, todo=f"e.g. {VALID[0]}")

    def build(self, split: Split) -> Subsets:
        """The samples of all files, by path; the source of each is its data set.

        Raises NoFileError where there is no folder or no match, DataError for a file or an image that cannot
        be used.
        """
        root, files = self._files(split)
        if split is Split.TRAIN and self.patterns == self.heldout_patterns:
            logger.warning("%s: the same images are trained and evaluated on", root)
        logger.warning(ASSUMED, root)
        names = _names(root, files)
        parts = [self._part(file, root, name, split) for file, name in zip(files, names, strict=True)]
        return Subsets(parts, self.train_size if split is Split.TRAIN else None)

    def _files(self, split: Split) -> tuple[Path, list[Path]]:
        root = Path(self.path)
        if not root.is_dir():
            raise NoFileError(
                "dataset.path", "no such folder", got=self.path, todo="give that of all data sets"
            )
        held = split is Split.HELDOUT
        patterns = self.heldout_patterns if held else self.patterns
        files = sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()})
        if not files:
            key = "dataset.heldout_patterns" if held else "dataset.patterns"
            looked = ", ".join(str(root / pattern) for pattern in patterns)
            problem = f"no file is there; looked for {looked}"
            raise NoFileError(key, problem, todo="see docs/howto/data/odinw.md for the layout")
        return root, files

    def _part(self, file: Path, root: Path, name: str, split: Split) -> RowSamples:
        own = CocoConfig(
            path=str(file), heldout_path=str(file), mode=CocoMode(self.mode.value), on_error=self.on_error
        )
        coco = read_coco(file)
        if coco.crowds:
            logger.warning("%s: %d crowd annotations were left out", file, coco.crowds)
        skips = Skips(self.on_error, file)
        reader = CocoReader(own, coco, file.relative_to(root).with_suffix("").as_posix())
        samples = RowSamples(own, split, skips.rows(coco.entries, reader), source=name)
        skips.report()
        return samples


def _names(root: Path, files: list[Path]) -> list[str]:
    """The data set of each file: its first folder, and the second where several folders share the first.

    As GLIP names its configs: AerialMaritimeDrone_large. A file in the root itself is of the root's data set.
    """
    folders = [file.relative_to(root).parent.parts or (root.resolve().name,) for file in files]
    shared = Counter(first for first, *_ in {folder[:2] for folder in folders})
    return ["_".join(folder[:2]) if shared[folder[0]] > 1 else folder[0] for folder in folders]
