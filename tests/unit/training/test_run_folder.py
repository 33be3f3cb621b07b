"""Run folders: named, locked, never written over; and their settings read back."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from groundrl.config.compose import compose_words
from groundrl.config.entry import typed
from groundrl.config.invocation import Invocation
from groundrl.errors import RunFolderError
from groundrl.run_config import PathsConfig
from groundrl.training.resume import drift, saved_run
from groundrl.training.run_folder import check_new, check_run_folder, create, reopen

WORDS = Invocation(overrides=("reward=ap", "seed=3"), experiment=None, resolved={"seed": 3, "name": "ü"})


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_folder_holds_words_and_settings(tmp_path: Path) -> None:
    folder = create(PathsConfig(root=str(tmp_path)), WORDS, 3)
    folder.close()
    assert folder.path.parent == tmp_path / "main"
    assert folder.path.name == WORDS.folder_name(3)
    assert yaml.safe_load((folder.path / "overrides.yaml").read_text("utf-8")) == ["reward=ap", "seed=3"]
    assert yaml.safe_load((folder.path / "config.yaml").read_text("utf-8")) == {"seed": 3, "name": "ü"}
    assert files(folder.path) == ["config.yaml", "overrides.yaml", "run.lock"]


def test_equal_settings_get_numbered_folders_even_while_the_first_runs(tmp_path: Path) -> None:
    paths = PathsConfig(root=str(tmp_path))
    first = create(paths, WORDS, 3)
    (first.path / "config.yaml").unlink()  # as if it had not been written yet: only the lock tells
    second = create(paths, WORDS, 3)
    third = create(paths, WORDS, 3)
    assert [folder.path.name.removeprefix(first.path.name) for folder in (second, third)] == [".2", ".3"]
    for folder in (first, second, third):
        folder.close()


def test_an_experiment_names_its_own_folder(tmp_path: Path) -> None:
    own = Invocation(overrides=("experiment=e",), experiment="e", resolved={})
    folder = create(PathsConfig(root=str(tmp_path)), own, 0)
    folder.close()
    assert folder.path.parent == tmp_path / "e"


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    paths = PathsConfig(output_dir=str(tmp_path / "run"))
    create(paths, WORDS, 3).close()
    before = {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")}
    for attempt in (lambda: create(paths, WORDS, 3), lambda: check_new(paths)):
        with pytest.raises(
            RunFolderError, match=r"paths.output_dir: '.*run' already holds a run; go on with it by"
        ):
            attempt()
    assert {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")} == before


def test_a_running_run_cannot_be_resumed(tmp_path: Path) -> None:
    folder = create(PathsConfig(output_dir=str(tmp_path / "run")), WORDS, 3)
    with pytest.raises(RunFolderError, match=r"is in use by process \d+; wait for it"):
        reopen(str(tmp_path / "run"))
    folder.close()
    reopen(str(tmp_path / "run")).close()


@pytest.mark.parametrize("key", ["root", "output_dir"])
def test_a_place_below_a_file_is_named(tmp_path: Path, key: str) -> None:
    (tmp_path / "file").write_text("x")
    paths = PathsConfig(**{key: str(tmp_path / "file" / "deep" / "er")})
    for attempt in (lambda: check_new(paths), lambda: create(paths, WORDS, 3)):
        with pytest.raises(RunFolderError) as error:
            attempt()
        assert str(error.value) == (
            f"paths.{key}: cannot write to '{tmp_path}/file/deep/er' ({tmp_path}/file is not a folder); "
            f"choose another paths.{key}=FOLDER"
        )
    assert files(tmp_path) == ["file"]


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"resume: there is no folder '.*nothing'"):
        check_run_folder(str(tmp_path / "nothing"))
    with pytest.raises(RunFolderError, match=r"holds no config\.yaml, so it is no run folder"):
        check_run_folder(str(tmp_path))
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(RunFolderError, match=r"holds no overrides\.yaml, so it is no run folder"):
        check_run_folder(str(tmp_path))
    assert files(tmp_path) == ["config.yaml"]


def saved(tmp_path: Path, *words: str) -> Path:
    config, invocation = typed(compose_words(words), words, multirun=False)
    folder = create(PathsConfig(output_dir=str(tmp_path / "run")), invocation, config.seed)
    folder.close()
    return folder.path


def test_a_run_keeps_its_own_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reward=ap", "algorithm.lr=${scale.ovd.sft_lr}", "eval.samples=7")
    folder = saved(tmp_path, *words)
    config, invocation = saved_run(folder)
    original, _ = typed(compose_words(words), words, multirun=False)
    assert config == original
    assert invocation.overrides == words
    assert capsys.readouterr().err == ""

    values = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    values["eval"]["resamples"] = 123  # a default of then
    (folder / "config.yaml").write_text(yaml.safe_dump(values))
    config, invocation = saved_run(folder)
    assert config.eval.resamples == 123
    assert invocation.resolved["eval"]["resamples"] == 123
    assert capsys.readouterr().err == "note: eval.resamples is 1000 today; the run keeps its own 123\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "a: [1"),
        ("config.yaml", "just text"),
        ("config.yaml", "eval: {samples: many}"),
        ("config.yaml", "eval: {no_such_setting: 1}"),
        ("config.yaml", "rollout: {temperature: -1}"),
        ("overrides.yaml", "{a: 1}"),
        ("overrides.yaml", "[reward=gone]"),
        ("overrides.yaml", "[a.setting.of.old=3]"),
        ("overrides.yaml", "\x00"),
    ],
)
def test_settings_that_no_longer_fit_are_one_line(tmp_path: Path, name: str, text: str) -> None:
    folder = saved(tmp_path, "seed=1")
    (folder / name).write_text(text)
    with pytest.raises(RunFolderError) as error:
        saved_run(folder)
    message = str(error.value)
    assert message.startswith("resume: the settings saved in ")
    assert message.endswith("check out the commit named in the run's record")
    assert "\n" not in message


def test_drift_names_every_leaf_that_differs() -> None:
    old = {"a": {"b": 1, "c": [1, 2]}, "d": None}
    new = {"a": {"b": 2, "c": [1, 2], "e": 3}}
    assert drift(old, new) == [("a.b", 1, 2), ("a.e", None, 3)]
    assert drift(old, old) == []


def test_a_secret_in_a_setting_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abc")
    for value in ("hf_0123456789abc", "s3://user:passphrase@host/data"):
        own = Invocation(overrides=(), experiment=None, resolved={"dataset": {"path": value}})
        with pytest.raises(RunFolderError, match="a setting holds a secret") as caught:
            create(PathsConfig(root=str(tmp_path)), own, 0)
        assert value not in str(caught.value)
    assert files(tmp_path) == []
