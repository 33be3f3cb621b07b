"""The two commands on a checkout of their own, with cells composed from this project's settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from tests.unit.tables.fake_experiment import FakeExperiments
from tests.unit.tables.test_claims_verdicts import commit, git

from groundrl.config.compose import compose_words
from groundrl.config.words import check_words
from groundrl.reporting.claims.__main__ import main as claims_main
from groundrl.reporting.experiments.plan import Planner, planner
from groundrl.reporting.tables.__main__ import main
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.sweep_file import read_sweep

SWEEP = """
program: train.py
method: grid
name: x
command: ["${env}", "${interpreter}", "${program}", "${args_no_hyphens}"]
parameters:
  model: {value: qwen3b}
  reward: {values: [ap, odlength]}
  rollout.max_new_tokens: {value: 64}
  seed: {values: [0, 1, 2]}
"""
SCALE = "words: []\ntwins: {model: {qwen3b: tiny_ovd}}\n"
TABLE = """
title: T
question: Q
rows:
  - {label: AP, axes: {reward: ap}}
  - {label: odLength, axes: {reward: odlength}}
columns: [{label: mAP, metric: coco/ap, unit: percent}]
figures: [{kind: bar, metric: coco/ap}]
"""
CLAIMS = """
scale: tiny
seeds: [0, 1, 2, 3]
steps: 80
alpha: 0.05
samples: 1024
claims:
  - id: c1
    text: odLength beats AP
    source: A paper
    tests: [{name: above, metric: coco/ap, a: {reward: odlength}, b: {reward: ap}, direction: greater}]
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeExperiments, Planner]:
    """A checkout with one experiment, results of odLength alone, and its plans."""
    experiments = FakeExperiments(tmp_path_factory.mktemp("checkout"))
    scales = experiments.root / "sweeps" / "scales"
    scales.mkdir(parents=True)
    (scales / "tiny.yaml").write_text(SCALE, "utf-8")
    (scales.parent / "x.yaml").write_text(SWEEP, "utf-8")
    git(experiments.root, "init", "-q")
    experiments.write(table=TABLE, expected=None, claims=CLAIMS)
    at = commit(experiments.root, "claims")
    plans = planner(experiments.places)
    for seed, cell in plans("x", "tiny", 4).at({"reward": "odlength"}).items():
        given = {"scale": "tiny", "commit": at, "claims_commit": at, "key": cell.key, "twins": cell.twins}
        experiments.add("odlength", [0.4 + seed / 50], seeds=[seed], **given)  # type: ignore[arg-type]
    return experiments, plans


def test_plans_are_composed_once_and_hold_more_seeds_when_asked(
    checkout: tuple[FakeExperiments, Planner],
) -> None:
    _, plans = checkout
    first = plans("x", "tiny", 4)
    assert plans("x", "tiny", 2) is first
    assert (first.axes, first.seeds) == ({"reward": ("ap", "odlength")}, (0, 1, 2))
    assert sorted(first.at({"reward": "ap"})) == [0, 1, 2, 3]


def test_commands_make_check_and_judge(
    checkout: tuple[FakeExperiments, Planner], capsys: pytest.CaptureFixture[str]
) -> None:
    experiments, plans = checkout
    folder = experiments.root / "experiments" / "x"
    at = ["--root", str(experiments.root)]
    assert main(["x", *at, "--check"], plans) == 1
    assert "experiments/x/table.md is out of date; run make table ID=x" in capsys.readouterr().err
    assert main([*at]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "experiments/x/table.md: 2 cells: 1 missing, 2 unknown, 1 tiny"
    assert "make sweep ID=x SCALE=tiny SEEDS=4" in told
    made = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"table.md", "table.csv", "table.tex", "table.html", "claims.md", "bar-coco-ap.svg"} <= set(made)
    assert b"tiny, unknown" in made["table.md"]  # today's key is the stored one: no drift
    assert made["claims.md"].decode().partition("## Claims")[2] in made["table.md"].decode()
    assert main(["x", *at, "--check"], plans) == 0
    assert main(["x", *at], plans) == 0
    assert made == {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert claims_main(["x", *at], plans) == 0
    assert "c1  missing  odLength beats AP" in capsys.readouterr().out
    assert (folder / "claims.md").read_bytes() == made["claims.md"]

    (folder / "figures" / "bar-coco-ap.svg").unlink()
    (folder / "table.tex").write_text("by hand", "utf-8")
    assert main(["x", *at, "--check"], plans) == 1
    stale = capsys.readouterr().err
    assert [line.split()[0] for line in stale.splitlines()] == [
        "experiments/x/table.tex",
        "experiments/x/figures/bar-coco-ap.svg",
    ]
    (folder / "figures" / "old.svg").write_text("left over", "utf-8")
    assert main(["x", *at], plans) == 0
    assert [path.name for path in (folder / "figures").iterdir()] == ["bar-coco-ap.svg"]


def test_results_of_ones_own_have_a_table_of_their_own(
    checkout: tuple[FakeExperiments, Planner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layout, the published numbers and the claims are those of experiments/."""
    experiments, plans = checkout
    theirs = experiments.root / "experiments" / "x"
    (tmp_path / "x").mkdir()
    (first, *_) = (theirs / "results.jsonl").read_text("utf-8").splitlines()
    (tmp_path / "x" / "results.jsonl").write_text(f"{first}\n", "utf-8")
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    at = ["x", "--root", str(experiments.root), "--into", str(tmp_path)]
    assert main(at, plans) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/x/table.md: 2 cells: 1 missing, 2 unknown")
    assert "(1 seed)" in (tmp_path / "x" / "table.md").read_text("utf-8")
    assert claims_main(at, plans) == 0
    assert (tmp_path / "x" / "claims.md").is_file()
    assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}


def test_every_command_that_is_printed_parses(checkout: tuple[FakeExperiments, Planner]) -> None:
    experiments, plans = checkout
    assert main(["x", "--root", str(experiments.root)], plans) == 0
    text = (experiments.root / "experiments" / "x" / "table.md").read_text("utf-8")
    runs = re.findall(r"^python .*", text, re.MULTILINE)
    assert len(runs) == 4
    for run in runs:
        python, script, *words = shlex.split(run)
        assert (python, script) == ("python", "train.py")
        check_words(words)
        OverridesParser.create().parse_overrides(words)
        assert f"seed={runs.index(run)}" in words
    assert compose_words(words).rollout.max_new_tokens == 64
    (sweep,) = re.findall(r"^make sweep .*", text, re.MULTILINE)
    given = dict(word.split("=") for word in shlex.split(sweep)[2:])
    places = Layout(root=experiments.root)
    assert read_sweep(places.sweep(given["ID"])).with_seeds(int(given["SEEDS"])).seeds == (0, 1, 2, 3)
    assert places.scale(given["SCALE"]).is_file()


def test_mistakes_on_the_command_line(
    checkout: tuple[FakeExperiments, Planner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--root", str(checkout[0].root)]
    assert main(["y", *at], checkout[1]) == 2
    assert capsys.readouterr().err == "ID: no such experiment, got 'y'; experiments: x\n"
    assert main(["x", *at, "--scale", "tinny"]) == 2
    assert "SCALE: no such scale, got 'tinny'; did you mean tiny?" in capsys.readouterr().err
    assert claims_main(["y", *at], checkout[1]) == 2
    assert "experiments/y/table.yaml: is not there" in capsys.readouterr().err
    assert main(["--root", str(tmp_path)]) == 0  # no experiments, no tables
