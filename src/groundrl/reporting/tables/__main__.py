"""`python -m groundrl.reporting.tables [ID ...]` makes tables of frozen results; `--check` compares them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groundrl.config.locate import closest
from groundrl.config.repo import repo_root
from groundrl.errors import ConfigError, UserError
from groundrl.reporting.claims.history import History
from groundrl.reporting.experiments.folder import experiment_ids
from groundrl.reporting.experiments.plan import Planner, planner
from groundrl.reporting.tables.build import Choice
from groundrl.reporting.tables.files import Made, Maker
from groundrl.sweeping.layout import INTO, Layout


def main(arguments: Sequence[str] | None = None, plans: Planner | None = None) -> int:
    """Write or compare the tables asked for. Returns the exit code: 1 for a stale file, 2 for bad input.

    plans  what sweeps ask for, where it is composed already
    """
    parser = argparse.ArgumentParser(
        prog="python -m groundrl.reporting.tables",
        description="Make table.md, .csv, .tex, .html, claims.md and figures of experiments/ID.",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="experiments; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    parser.add_argument("--scale", help="show results of this scale")
    parser.add_argument(
        "--allow-mixed", action="store_true", help="allow several scales or commits in a table"
    )
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=INTO)
    parser.add_argument("--root", type=Path, default=repo_root(), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    into = options.into.absolute() if options.into is not None else None
    places = Layout(root=options.root, into=into)
    maker = Maker(places, plans or planner(places), History(options.root))
    choice = Choice(scale=options.scale, mixed=options.allow_mixed)
    codes: list[int] = []
    for id in options.ids or experiment_ids(places):
        try:
            known = experiment_ids(places)
            if id not in known:
                listed = f"experiments: {', '.join(known) or 'none'}"
                raise ConfigError("ID", "no such experiment", got=id, todo=closest(id, known) + listed)
            made = maker.make(id, choice)
            codes.append(_check(maker, made) if options.check else _write(maker, made))
        except UserError as error:
            print(error, file=sys.stderr)
            codes.append(error.exit_code)
    return max(codes, default=0)


def _write(maker: Maker, made: Made) -> int:
    folder = maker.write(made)
    print(f"{folder}/table.md: {made.table.counts()}")
    for sweep, runs in made.table.missing():
        print(f"  missing: {sweep}   (or {len(runs)} single runs, listed in table.md)")
    return 0


def _check(maker: Maker, made: Made) -> int:
    stale = maker.stale(made)
    for name in stale:
        print(
            f"{maker.shown(made)}/{name} is out of date; run make table ID={made.table.id}", file=sys.stderr
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
