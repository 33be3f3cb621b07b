"""From the records of a file to the rows of a data set: bad ones refused or counted, images looked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from groundrl.data.base import Split
from groundrl.data.images import find_image
from groundrl.data.records import Record, read_records
from groundrl.data.rows import FileConfig, Row, Skips
from groundrl.data.solution import SolutionReader

logger = logging.getLogger(__name__)


def load_rows(
    config: FileConfig, split: Split, make: Callable[[Record, SolutionReader], Row], *, assumed: str
) -> list[Row]:
    """The rows that `make` reads from the records of a split's file, each image checked to be there.

    assumed  what about the format could not be verified; logged

    Raises DataError for a row that cannot be used unless the user skips these, and for a file most of whose
    boxes have their corners in the wrong order; ConfigError where the file cannot be found or read.
    """
    file, root = config.file(split), config.image_root(split)
    logger.warning("%s: assumed: %s", file, assumed)
    skips, solutions = Skips(config.on_error, file), SolutionReader(file)

    def read(record: object) -> Iterator[Row]:
        assert isinstance(record, Record)
        row = make(record, solutions)
        for image in row.images:
            if isinstance(image, str):
                find_image(image, root, file=file, row=record.number)
        yield row

    rows = list(skips.rows(read_records(file), read))
    solutions.check_order()
    skips.report()
    return rows
