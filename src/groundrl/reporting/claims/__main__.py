"""`python -m groundrl.reporting.claims ID ...` holds claims against frozen results and writes claims.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groundrl.config.repo import repo_root
from groundrl.errors import ConfigError, UserError
from groundrl.reporting.claims.evaluate import evaluate_claims
from groundrl.reporting.claims.history import History
from groundrl.reporting.claims.markdown import effect_text, p_text, render_claims
from groundrl.reporting.experiments.folder import Results, check_axes, read_experiment
from groundrl.reporting.experiments.plan import Planner, planner
from groundrl.sweeping.layout import INTO, Layout
from groundrl.tracking.lines import write_atomic


def main(arguments: Sequence[str] | None = None, plans: Planner | None = None) -> int:
    """Print and write the verdicts of the experiments named. Returns the exit code, 0 whatever they are.

    plans  what sweeps ask for, where it is composed already
    """
    parser = argparse.ArgumentParser(
        prog="python -m groundrl.reporting.claims",
        description="Claims of experiments/ID against its results.",
    )
    parser.add_argument("ids", nargs="+", metavar="ID")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=INTO)
    parser.add_argument("--root", type=Path, default=repo_root(), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    into = options.into.absolute() if options.into is not None else None
    places = Layout(root=options.root, into=into)
    known = plans or planner(places)
    codes: list[int] = []
    for id in options.ids:
        try:
            _one(places, id, known)
        except UserError as error:
            print(error, file=sys.stderr)
            codes.append(error.exit_code)
    return max(codes, default=0)


def _one(places: Layout, id: str, plans: Planner) -> None:
    experiment = read_experiment(places, id)
    claims = experiment.claims
    if claims is None:
        raise ConfigError(
            f"experiments/{id}/claims.yaml", "is not there", todo="write the claims before the runs"
        )
    history = History(places.root)
    history.check()
    check_axes(experiment, plans, claims.scale)
    results = evaluate_claims(claims, id, Results(places), plans, history)
    for result in results:
        reason = f": {result.claim.not_testable}" if result.claim.not_testable else ""
        print(f"{result.claim.id}  {result.verdict}  {result.claim.text}{reason}")
        for test in result.tests:
            print(
                f"    {test.test.name}: {test.test.metric} {effect_text(test)}, Holm p {p_text(test.holds)}"
            )
            for kind, reason in test.obstacles:
                print(f"        {kind}: {reason}")
    file = places.made(id) / "claims.md"
    write_atomic(file, f"# {id}\n\n{render_claims(claims, results)}".encode())
    print(places.shown(file))


if __name__ == "__main__":
    sys.exit(main())
