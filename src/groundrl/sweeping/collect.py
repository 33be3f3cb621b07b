"""Takes in runs started by hand: `python -m groundrl.sweeping.collect --id ID --scale tiny FOLDER...`

Of the folders given (default: outputs), and all folders in them, every finished run whose settings are those
of a cell of the sweep is added to experiments/ID/results.jsonl. The folder's name does not matter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from groundrl.config.entry import guard
from groundrl.errors import DataError, RunFolderError
from groundrl.sweeping.cell_folder import result, saved_key
from groundrl.sweeping.cells import build_cells
from groundrl.sweeping.claims_commit import claims_commit
from groundrl.sweeping.collecting import row_of
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.results import append_result
from groundrl.training.run_folder import CONFIG, OVERRIDES, RESULT


def main(argv: Sequence[str] | None = None, *, layout: Layout | None = None) -> int:
    """The exit code: 0, 2 on a user's error."""
    parser = argparse.ArgumentParser(prog="python -m groundrl.sweeping.collect", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="run folders, or above them")
    parser.add_argument("--id", required=True, help="a sweep: sweeps/ID.yaml")
    parser.add_argument("--scale", required=True, help="sweeps/scales/SCALE.yaml")
    parser.add_argument("--seeds", type=int, help="so many seeds (default: those of the file)")
    options = parser.parse_intermixed_args(argv)
    return guard(partial(_main, options, layout or Layout()))


def _main(options: argparse.Namespace, layout: Layout) -> int:
    cells = build_cells(layout, options.id, options.scale, seeds=options.seeds)
    testable = [cell for cell in cells if cell.not_testable is None]
    added = others = 0
    for run in finished_runs(options.folders or [layout.root / "outputs"]):
        try:
            key = saved_key(run)
        except DataError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        mine = [cell for cell in testable if cell.key == key]
        others += not mine
        for cell in mine:
            facts = result(run).get("run") or {}
            claims = claims_commit(layout, options.id, at=str(facts.get("commit", "unknown")))
            if append_result(layout.results(options.id), row_of(run, cell, claims)):
                print(f"added: {cell.name} from {run}")
                added += 1
    file = layout.shown(layout.results(options.id))
    print(f"{added} results added to {file}; {others} runs belong to no cell of it")
    return 0


def finished_runs(folders: Sequence[Path]) -> Iterator[Path]:
    """The finished run folders among `folders` and below. Raises RunFolderError when one is not there."""
    for folder in folders:
        if not folder.is_dir():
            raise RunFolderError(f"there is no folder {str(folder)!r}; give run folders, or one above them")
        for file in sorted(folder.rglob(RESULT)):
            run = file.parent
            whole = all((run / name).is_file() for name in (CONFIG, OVERRIDES))
            if whole and result(run).get("status") == "finished":
                yield run


if __name__ == "__main__":
    sys.exit(main())
