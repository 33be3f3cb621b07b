"""Runs a sweep, or goes on with it: `python -m groundrl.sweeping.run ID --scale tiny --seeds 3 --jobs 2`.

Every finished run is added to experiments/ID/results.jsonl and never repeated, whatever happens to outputs/.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.entry import composed, guard, typed
from groundrl.config.refusals import refusal
from groundrl.config.repo import resolve
from groundrl.config.words import parted, quoted
from groundrl.errors import ConfigError, UserError
from groundrl.models.fingerprint import start_fingerprint
from groundrl.sweeping.cell_folder import CellFolder
from groundrl.sweeping.cells import Cell, build_cells
from groundrl.sweeping.claims_commit import claims_commit
from groundrl.sweeping.launcher import LauncherName, check_launcher, command
from groundrl.sweeping.layout import INTO, Layout
from groundrl.sweeping.lock_file import changes, locked, read_lock, write_lock
from groundrl.sweeping.owner import owned
from groundrl.sweeping.progress import Progress
from groundrl.sweeping.results import read_results
from groundrl.sweeping.reuse import Reuse, reuse
from groundrl.sweeping.runner import Runner
from groundrl.training.provenance import commit

WITHOUT_EFFECT = ("tracker", "threads", "paths.data")
"""What may be said for all cells at once: it changes no result, so no key."""


Say = Callable[[str], None]


def main(argv: Sequence[str] | None = None, *, layout: Layout | None = None) -> int:
    """The exit code: 0, 1 when a cell failed, 2 on a user's error, 128 + n after signal n."""
    parser = argparse.ArgumentParser(prog="python -m groundrl.sweeping.run", description=__doc__)
    parser.add_argument("id", metavar="ID", help="a sweep: sweeps/ID.yaml")
    parser.add_argument("--scale", help="sweeps/scales/SCALE.yaml (default: tiny without a CUDA device)")
    parser.add_argument("--seeds", type=int, help="so many seeds (default: those of the file)")
    parser.add_argument("--jobs", type=int, default=1, help="cells at the same time")
    parser.add_argument("--launcher", default="local", help=f"one of {', '.join(LauncherName)}")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=INTO)
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run nothing")
    parser.add_argument("words", nargs="*", help="settings without effect on results (tracker=wandb), "
                        "and hydra.launcher.* with --launcher submitit")  # fmt: skip
    options = parser.parse_intermixed_args(argv)
    places = layout or Layout()
    if options.into is not None:
        places = replace(places, into=options.into.absolute())
    return guard(partial(_main, options, places))


def _main(options: argparse.Namespace, layout: Layout) -> int:
    if options.launcher not in tuple(LauncherName):
        listed = f"launchers: {', '.join(LauncherName)}"
        raise ConfigError("LAUNCHER", "no such launcher", got=options.launcher, todo=listed)
    if options.jobs < 1:
        raise ConfigError("JOBS", "must be >= 1", got=options.jobs, todo="e.g. JOBS=2")
    launcher = LauncherName(options.launcher)
    hydra = [word for word in options.words if word.startswith("hydra.")]
    extra = [word for word in options.words if word not in hydra]
    _check_words(hydra, extra, launcher)
    layout.sweep(options.id)  # before the question about the device
    scale = options.scale or _default_scale()
    cells = build_cells(layout, options.id, scale, seeds=options.seeds, extra=extra)
    place = layout.runs(options.id, scale).parent / "sweep.lock"
    start = partial(command, root=layout.root, launcher=launcher, words=[quoted(word) for word in hydra])
    if options.dry_run:
        return _dry_run(layout, cells, start)
    with owned(place, f"the sweep {options.id}"):
        return _run(options, layout, scale, cells, launcher, start)


def _run(
    options: argparse.Namespace,
    layout: Layout,
    scale: str,
    cells: list[Cell],
    launcher: LauncherName,
    start: partial[list[str]],
) -> int:
    progress = Progress(sys.stdout)
    say = progress.event
    _lock(layout, options.id, scale, cells, say)
    found = reuse(layout, cells)
    _say_found(found, len(cells), say)
    if not found.to_run:
        say(f"nothing to run; results are in {layout.shown(layout.results(options.id))}")
        return 0
    check_launcher(launcher)
    _check_cells(found.to_run)
    claims = claims_commit(layout, options.id)
    if claims is None:
        file = layout.shown(layout.claims(options.id))
        say(f"note: {file} is missing, new or changed: these runs will not count for claims")
    runner = Runner(layout=layout, command=start, progress=progress, claims_commit=claims, jobs=options.jobs)
    runner.run(found.to_run)
    again = reuse(layout, cells)
    for cell, source in again.copied:
        say(f"copied: {cell.name} has the settings of a cell of {source}")
    for failure in runner.failures:
        for line in failure.lines():
            say(line)
    if again.to_run:
        say(f"{len(again.to_run)} cells are left; go on with: {_command(options, scale)}")
    if runner.received is not None:
        return 128 + runner.received
    say(f"results: {layout.shown(layout.results(options.id))}")
    return 1 if runner.failures else 0


def _default_scale() -> str:
    import torch  # only when nobody says

    scale = "paper" if torch.cuda.is_available() else "tiny"
    there = "a" if scale == "paper" else "no"
    print(f"scale: {scale}, as there is {there} CUDA device here (SCALE=... for another)", flush=True)
    return scale


def _check_words(hydra: Sequence[str], extra: Sequence[str], launcher: LauncherName) -> None:
    for word in extra:
        key = parted(word)[0]
        if not any(key == name or key.startswith(f"{name}.") for name in WITHOUT_EFFECT):
            todo = f"only {', '.join(WITHOUT_EFFECT)} can be said here; others belong into the sweep's file"
            raise ConfigError(key, "would change the cells of the sweep", got=word, todo=todo)
    if hydra and launcher is LauncherName.local:
        raise ConfigError(hydra[0], "would be ignored", todo="add --launcher submitit, or leave it out")


def _check_cells(cells: Sequence[Cell]) -> None:
    """The checks that every run begins with, before the first one starts. Raises UserError."""
    seen: set[tuple[str, ...]] = set()
    for cell in cells:
        words = tuple(word for word in cell.words if not word.startswith("seed="))
        if words in seen:
            continue
        seen.add(words)
        try:
            typed(*composed([quoted(word) for word in cell.words]), multirun=False)
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(f"cell {cell.name}: {refusal(error, cell.words)}") from None
        except UserError as error:
            raise UserError(f"cell {cell.name}: {error}") from None


def _lock(layout: Layout, id: str, scale: str, cells: list[Cell], say: Say) -> None:
    file = layout.lock(id, scale)
    start = {cell.start: _fingerprint(*cell.start) for cell in cells if cell.not_testable is None}
    new = locked(cells, commit=commit(), start={weights: digest for (weights, _), digest in start.items()})
    old = read_lock(file)
    if old is not None:
        for change in changes(old, new):
            say(f"changed since the last call: {change}")
    write_lock(file, new)


def _fingerprint(weights: str, tokenizer: str) -> str | None:
    folder = resolve(weights)
    return start_fingerprint(folder, resolve(tokenizer)) if list(folder.glob("*.safetensors")) else None


def _say_found(found: Reuse, total: int, say: Say) -> None:
    say(f"{total} cells: {len(found.done)} have results, {len(found.copied)} copied from other experiments, "
        f"{len(found.to_run)} to run, {len(found.not_testable)} not testable at this scale")  # fmt: skip
    for cell, source in found.copied:
        say(f"copied: {cell.name} was run for {source}")
    for cell in found.not_testable:
        say(f"not testable: {cell.name}: {cell.not_testable}")


def _dry_run(layout: Layout, cells: list[Cell], start: partial[list[str]]) -> int:
    known = {row.key for file in layout.all_results() for row in read_results(file)}
    for cell in cells:
        if cell.key in known:
            print(f"# has a result: {cell.name}")
            continue
        if cell.not_testable is not None:
            print(f"# not testable: {cell.name}: {cell.not_testable}")
            continue
        folder = CellFolder(path=layout.runs(cell.id, cell.scale) / cell.folder_name)
        print(f"python {shlex.join(start(cell, folder))}")
    return 0


def _command(options: argparse.Namespace, scale: str) -> str:
    """The line that goes on with this sweep."""
    parts = ["make", "sweep", f"ID={options.id}", f"SCALE={scale}"]
    parts += [f"SEEDS={options.seeds}"] if options.seeds is not None else []
    parts += [f"JOBS={options.jobs}"] if options.jobs != 1 else []
    parts += [f"LAUNCHER={options.launcher}"] if options.launcher != "local" else []
    parts += [f"INTO={shlex.quote(str(options.into))}"] if options.into is not None else []
    parts += [f"OVERRIDES={shlex.quote(' '.join(options.words))}"] if options.words else []
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
