"""Whether a run's words still give its settings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from groundrl.config.compose import compose_run, compose_words
from groundrl.data.base import Split
from groundrl.reporting.replay import differences, main, replay
from groundrl.training import provenance

WORDS = ["reward=ap", "seed=3"]


def settings(words: list[str]) -> dict[str, Any]:
    return json.loads(_settings(tuple(words)))


@cache
def _settings(words: tuple[str, ...]) -> str:
    return json.dumps(OmegaConf.to_container(compose_words(words), resolve=True, enum_to_str=True))


def facts(words: list[str]) -> dict[str, Any]:
    return dict(_facts(tuple(words)))


@cache
def _facts(words: tuple[str, ...]) -> dict[str, Any]:
    config = compose_run(words)
    return {
        "commit": provenance.commit(),
        "versions": provenance.stated(provenance.versions()),
        "train_fingerprint": config.dataset.build(Split.TRAIN).fingerprint(),
        "heldout_fingerprint": config.dataset.build(Split.HELDOUT).fingerprint(),
        "start_fingerprint": provenance.start(config.model),
    }


def write(
    folder: Path, words: list[str], values: dict[str, Any], known: dict[str, Any] | None = None
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "overrides.yaml").write_text(yaml.safe_dump(words))
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    if known is not None:
        (folder / "result.json").write_text(json.dumps({"status": "finished", "run": known}))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "run", WORDS, settings(WORDS), facts(WORDS))


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main([str(folder)])
    printed = capsys.readouterr()
    assert printed.err == ""
    return code, printed.out.splitlines()


def test_an_unchanged_run_is_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(run, capsys) == (0, ["equal: today's configs give the settings of the run"])


def test_drift_names_keys_and_both_values(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As if since then lr had been changed, a setting been added, and one and a mapping been removed."""
    values = settings(WORDS)
    values["algorithm"]["lr"] = 0.25
    del values["eval"]["resamples"]
    values["eval"]["old"] = "1"
    values["model"]["gone"] = {"a": 1, "b": {}}
    today = settings(WORDS)
    write(run, WORDS, values)
    code, lines = shown(run, capsys)
    assert code == 1
    assert lines == [
        f"changed  algorithm.lr: 0.25 -> {today['algorithm']['lr']}",
        "removed  eval.old: '1' -> (absent)",
        f"added    eval.resamples: (absent) -> {today['eval']['resamples']}",
        "removed  model.gone.a: 1 -> (absent)",
        "removed  model.gone.b: {} -> (absent)",
        "drift: 5 settings differ",
    ]


@pytest.mark.parametrize(
    ("then", "today", "found"),
    [
        (1, 1.0, [("k", "changed", "1", "1.0")]),
        (1, True, [("k", "changed", "1", "true")]),
        (None, "null", [("k", "changed", "null", "'null'")]),
        (float("nan"), float("nan"), []),
        ([1, 2], [2, 1], [("k", "changed", "[1, 2]", "[2, 1]")]),
        ({}, {"a": None}, [("k.a", "added", "(absent)", "null")]),
        ({"a": 1}, "b", [("k", "changed", "{a: 1}", "b")]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
)
def test_differences(then: Any, today: Any, found: list[tuple[str, str, str, str]]) -> None:
    made = [(one.key, one.kind, one.then, one.today) for one in differences({"k": then}, {"k": today})]
    assert made == found


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("reward=gone", "reward: no such option, got 'gone'"),
        ("experiment=gone", "experiment: no such preset, got 'gone'"),
        ("algorithm.gone=1", "algorithm.gone: no such setting"),
        ("algorithm.lr=fast", "algorithm.lr: must be a number, got 'fast'"),
        ("algorithm/kl=gone", "algorithm/kl: no such option, got 'gone'"),
        ("eval.metric=greedy/gone", "eval.metric: is not measured in this run, got 'greedy/gone'"),
        ("checkpoint.every=0", "checkpoint.every: must be >= 1, got 0"),
    ],
)
def test_words_that_are_refused_today_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, why: str
) -> None:
    folder = write(tmp_path / "run", ["seed=3", word, "eval.samples=8"], {"seed": 3}, {})
    code, lines = shown(folder, capsys)
    assert code == 1
    assert lines[0].startswith(f"no longer accepted: the word {word!r}: {why}"), lines[0]
    assert lines[-1].startswith("drift")


def test_what_else_differs_is_a_note_and_no_drift(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = facts(WORDS) | {"commit": "abc", "start_fingerprint": "sha256:0"}
    del known["versions"]
    write(run, WORDS, settings(WORDS), known)
    code, lines = shown(run, capsys)
    assert code == 0
    assert lines == [
        f"note     commit was abc, is {provenance.commit()}",
        "note     versions was not recorded",
        f"note     start_fingerprint was sha256:0, is {facts(WORDS)['start_fingerprint']}",
        "equal: today's configs give the settings of the run",
    ]


def test_data_and_weights_that_are_gone_are_notes(tmp_path: Path) -> None:
    words = ["dataset=jsonl", "dataset.path=gone.jsonl", "model.path=gone"]
    replayed = replay(write(tmp_path / "run", words, settings(words), facts([]) | {"commit": "abc"}))
    assert not replayed.drifted
    assert any("gone.jsonl" in note for note in replayed.notes)


def test_a_run_that_was_killed_has_no_facts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "result.json").unlink()
    code, lines = shown(run, capsys)
    assert code == 0
    assert lines[0].startswith("note     there is no result.json: commit, versions")
    (run / "result.json").write_text("{")
    assert shown(run, capsys)[1][0].startswith("note     result.json cannot be read")


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda run: (run / "config.yaml").unlink(), "holds no config.yaml"),
        (lambda run: (run / "overrides.yaml").unlink(), "holds no overrides.yaml"),
        (lambda run: (run / "config.yaml").write_text("a: [") and None, "config.yaml: cannot be read"),
        (
            lambda run: (run / "overrides.yaml").write_bytes(b"\xff") and None,
            "overrides.yaml: cannot be read",
        ),
        (lambda run: (run / "config.yaml").write_text("") and None, "the run is damaged"),
    ],
)
def test_a_folder_that_is_no_run(
    run: Path, capsys: pytest.CaptureFixture[str], break_it: Any, why: str
) -> None:
    break_it(run)
    assert main([str(run)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert why in printed.err


def test_no_folder_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "gone")]) == 2
    assert "RUN_DIR: there is no folder" in capsys.readouterr().err
