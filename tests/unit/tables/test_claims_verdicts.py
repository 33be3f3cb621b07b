"""Verdicts from frozen results, with a real git history behind the question which runs count."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.unit.tables.fake_experiment import FakeExperiments, metrics, plan

from groundrl.errors import UserError
from groundrl.reporting.claims.evaluate import evaluate_claims
from groundrl.reporting.claims.history import History
from groundrl.reporting.claims.markdown import claim_lines, render_claims
from groundrl.reporting.claims.verdict import ClaimResult
from groundrl.reporting.experiments.folder import Results, read_experiment

CLAIMS = """
scale: tiny
seeds: [0, 1, 2]
steps: 80
alpha: 0.05
samples: 1024
claims:
  - id: c1
    text: odLength beats AP
    source: A paper, Table 5
    tests:
      - {name: above, metric: coco/ap, a: {reward: odlength}, b: {reward: ap}, direction: greater}
  - id: c2
    text: AP50 falls below its start
    source: A paper, Table 5
    tests:
      - {name: falls, metric: coco/ap, a: {reward: ap50}, b: before, direction: less}
"""


def git(root: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *names, *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path, message: str) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def world(experiments: FakeExperiments) -> tuple[FakeExperiments, str]:
    """Claims that are committed, and the commit."""
    git(experiments.root, "init", "-q")
    experiments.write(claims=CLAIMS)
    return experiments, commit(experiments.root, "claims")


def judged(experiments: FakeExperiments) -> dict[str, ClaimResult]:
    experiment = read_experiment(experiments.places, "x")
    assert experiment.claims is not None
    results = evaluate_claims(
        experiment.claims, "x", Results(experiments.places), plan, History(experiments.root)
    )
    return {result.claim.id: result for result in results}


def add(experiments: FakeExperiments, at: str, reward: str, values: list[float], **changes: object) -> None:
    given = {"scale": "tiny", "commit": at, "claims_commit": at, **changes}
    experiments.add(reward, values, **given)  # type: ignore[arg-type]


def why(result: ClaimResult) -> list[str]:
    return [reason for test in result.tests for _, reason in test.obstacles]


def test_holds_fails_and_undecided(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.20, 0.21, 0.22])
    add(experiments, at, "odlength", [0.40, 0.42, 0.41])
    add(experiments, at, "ap50", [0.30, 0.32, 0.31], before=0.10)
    found = judged(experiments)
    # odlength - ap = 0.20, 0.21, 0.19: mean 0.2, s 0.01, t = 0.2 root 3 / 0.01 = 34.6410, df 2:
    # p = (1 - 34.6410 / root(1200 + 2)) / 2 = 0.000416; Holm over two tests: the smaller times 2.
    (above,) = found["c1"].tests
    assert above.p == pytest.approx(0.000416, abs=1e-6)
    # ap50 - its start = 0.20, 0.22, 0.21: against the claim with t = 0.21 root 3 / 0.01 = 36.3731 and
    # p = 0.000377 the other way, times 2 = 0.000755; in the claimed direction p is nearly 1.
    (falls,) = found["c2"].tests
    assert (above.holds, above.fails) == pytest.approx((0.000832, 1 - 0.000416), abs=2e-6)
    assert falls.fails == pytest.approx(0.000755, abs=2e-6)
    assert {name: str(result.verdict) for name, result in found.items()} == {"c1": "holds", "c2": "fails"}
    assert claim_lines(list(found.values()))[0] == "c1: holds (odLength beats AP)"


def test_overlapping_seeds_are_undecided(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.3, 0.4])
    add(experiments, at, "odlength", [0.3, 0.25, 0.45])
    assert judged(experiments)["c1"].verdict == "undecided"


def test_holm_counts_tests_that_have_no_result(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    # differences 1, 2, 3 hundredths: p = 0.037090 (test_claims_math); alone it holds, times 2 not
    add(experiments, at, "ap", [0.20, 0.20, 0.20])
    add(experiments, at, "odlength", [0.21, 0.22, 0.23])
    found = judged(experiments)
    assert found["c1"].tests[0].holds == pytest.approx(2 * 0.037090, abs=1e-5)
    assert found["c1"].verdict == "undecided"
    assert found["c2"].verdict == "missing"
    assert why(found["c2"]) == ["seed 0, 1, 2 of x; make sweep ID=x SCALE=tiny SEEDS=3"]
    experiments.write(claims=CLAIMS.partition("  - id: c2")[0])
    commit(experiments.root, "one claim")
    assert judged(experiments)["c1"].verdict == "not counted"  # the family was another one when they ran


def test_seeds_are_those_declared(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21])
    add(experiments, at, "odlength", [0.4, 0.4, 0.4, -9.0])  # seed 3 was never declared
    found = judged(experiments)["c1"]
    assert (found.verdict, found.tests[0].paired) == ("missing", None)
    assert why(found) == ["seed 2 of x; make sweep ID=x SCALE=tiny SEEDS=3"]
    add(experiments, at, "ap", [0.22], seeds=[2])
    assert judged(experiments)["c1"].verdict == "holds"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"claims_commit": None}, "x, seed 0: the claims were not committed when it ran"),
        ({"steps": 40}, "x, seed 0: it trained 40 steps, the claims say 80"),
        ({"commit": "c" * 40}, "x, seed 0: its commit cccccccccc does not come after the claims'"),
    ],
)
def test_runs_that_do_not_count(
    world: tuple[FakeExperiments, str], changes: dict[str, object], reason: str
) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21, 0.22])
    add(experiments, at, "odlength", [0.4, 0.41], seeds=[1, 2])
    add(experiments, at, "odlength", [0.4], **changes)
    found = judged(experiments)["c1"]
    assert found.verdict == "not counted"
    assert why(found)[0].startswith(reason)
    assert found.tests[0].paired is not None  # still shown
    assert found.tests[0].holds == 1.0  # but decides nothing


def test_a_run_from_before_the_claims_does_not_count(experiments: FakeExperiments) -> None:
    git(experiments.root, "init", "-q")
    experiments.write()
    earlier = commit(experiments.root, "code")
    experiments.write(claims=CLAIMS)
    at = commit(experiments.root, "claims")
    add(experiments, at, "ap", [0.2, 0.21, 0.22])
    add(experiments, at, "odlength", [0.4, 0.41], seeds=[1, 2])
    add(experiments, earlier, "odlength", [0.4], claims_commit=at)
    found = judged(experiments)["c1"]
    assert found.verdict == "not counted"
    assert "does not come after the claims'" in why(found)[0]


def test_words_may_change_and_questions_may_not(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21, 0.22], commit=at + "+changes")
    add(experiments, at, "odlength", [0.4, 0.42, 0.41])
    experiments.write(claims=CLAIMS.replace("odLength beats AP", "odLength is better than AP"))
    assert judged(experiments)["c1"].verdict == "holds"
    experiments.write(claims=CLAIMS.replace("alpha: 0.05", "alpha: 0.2"))
    found = judged(experiments)["c1"]
    assert found.verdict == "not counted"
    assert why(found)[0] == f"x, seed 0: the claims asked something else at its commit {at[:10]}"


def test_runs_of_another_experiment_count_by_their_commit(world: tuple[FakeExperiments, str]) -> None:
    experiments, _ = world
    experiments.write(claims=CLAIMS.replace("b: {reward: ap}", "b: {reward: ap, from: y}"))
    at = commit(experiments.root, "claims about y")
    add(experiments, at, "odlength", [0.4, 0.42, 0.41])
    add(experiments, at, "ap", [0.2, 0.21, 0.22], id="y", claims_commit=None)  # y has no claims of its own
    assert judged(experiments)["c1"].verdict == "holds"


def test_small_evaluations_are_not_informative(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21, 0.22])
    add(experiments, at, "odlength", [0.4, 0.41, 0.42], samples={"coco": 512})
    found = judged(experiments)["c1"]
    assert found.verdict == "not informative"
    assert why(found) == ["coco has 512 scenes, the claims ask for 1024"]


def test_a_metric_without_a_count_of_scenes_is_not_informative(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21, 0.22])
    add(experiments, at, "odlength", [0.4, 0.41, 0.42], samples={})
    assert why(judged(experiments)["c1"]) == ["coco has 0 scenes, the claims ask for 1024"]


def test_a_metric_that_is_not_there_is_missing(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.2, 0.21, 0.22])
    add(experiments, at, "odlength", [0.4, 0.41, 0.42], after=metrics({"coco/gp": 0.5}), before=0.1)
    found = judged(experiments)["c1"]
    assert (found.verdict, why(found)[0]) == ("missing", "x, seed 0 has no coco/ap; did you mean coco/ap?")


def test_onset_compares_steps_and_counts_the_run_that_never_rose(world: tuple[FakeExperiments, str]) -> None:
    experiments, _ = world
    claims = CLAIMS.replace(
        "metric: coco/ap, a: {reward: odlength}", "metric: onset(r), a: {reward: odlength}"
    )
    experiments.write(claims=claims.replace("direction: greater", "direction: less"))
    at = commit(experiments.root, "onset")

    def rising(step: int) -> dict[str, list[tuple[int, float]]]:
        return {"r": [(s, float(s >= step)) for s in range(80)]}

    for seed, (early, late) in enumerate([(10, 60), (12, 62), (20, 80)]):
        add(experiments, at, "odlength", [0.4], seeds=[seed], curves=rising(early), samples={})
        add(experiments, at, "ap", [0.2], seeds=[seed], curves=rising(late), samples={})
    result = judged(experiments)["c1"]
    # 10 - 60, 12 - 62, 20 - 80 (never rose: its 80 steps) = -50, -50, -60
    assert result.tests[0].paired is not None
    assert result.tests[0].paired.effect == pytest.approx(-160 / 3)
    assert result.verdict == "holds"
    assert result.tests[0].notes == ("1 runs never rose and count with their length",)


def test_the_markdown_of_verdicts(world: tuple[FakeExperiments, str]) -> None:
    experiments, at = world
    add(experiments, at, "ap", [0.20, 0.21, 0.22])
    add(experiments, at, "odlength", [0.40, 0.42, 0.41])
    claims = read_experiment(experiments.places, "x").claims
    assert claims is not None
    # 0.2 +- 4.30265 x 0.01 / root 3 = 0.2 +- 0.0248; Holm: 0.000416 x 2
    assert (
        render_claims(claims, list(judged(experiments).values()))
        == """\
## Claims

Scale tiny, seeds 0, 1, 2, 80 steps, 1024 scenes or more. Paired by seed, one-sided t; Holm over 2 tests, \
alpha 0.05. Effects are a - b in the metric's own unit [95 % interval, not corrected].

| claim | verdict | published in |
| --- | --- | --- |
| **c1** odLength beats AP | **holds** | A paper, Table 5 |
| **c2** AP50 falls below its start | **missing** | A paper, Table 5 |

| claim | test | metric | claimed | effect | p | p (Holm) | p against (Holm) |
| --- | --- | --- | --- | --- | --- | --- | --- |
| c1 | above | coco/ap | a > b | +0.2000 [+0.1752, +0.2248] | 0.0004 | 0.0008 | 1.0000 |
| c2 | falls | coco/ap | a &lt; b | - | - | - | - |

* missing: seed 0, 1, 2 of x; make sweep ID=x SCALE=tiny SEEDS=3 (c2 falls)
"""
    )


def test_without_a_history_claims_are_refused(experiments: FakeExperiments, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="claims need the git history"):
        History(tmp_path / "nowhere").check()
    git(experiments.root, "init", "-q")
    commit(experiments.root, "one")
    commit(experiments.root, "two")
    History(experiments.root).check()
    git(experiments.root, "clone", "-q", "--depth", "1", f"file://{experiments.root}", "short")
    with pytest.raises(UserError, match="claims need the whole history; run git fetch --unshallow"):
        History(experiments.root / "short").check()
