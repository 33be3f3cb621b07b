"""The patch of a run that began with changed code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from groundrl.training import changes
from groundrl.training.changes import save_changes


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@x"]
    done = subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.py").write_text("one = 1\ntwo = 2\n")
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "c")
    return place


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_nothing_changed_nothing_kept(root: Path, run: Path) -> None:
    assert save_changes(run, "abc", root=root) is None
    assert list(run.iterdir()) == []


def test_the_patch_makes_the_commit_into_the_code_that_ran(root: Path, run: Path, tmp_path: Path) -> None:
    clean = shutil.copytree(root, tmp_path / "clean")
    changed = "one = 1\ntwo = 3\nthree = 'naïve'\n".encode() + b"# latin-1: \xe9\n"
    (root / "src" / "a.py").write_bytes(changed)
    said = save_changes(run, "abc+changes", root=root)
    file = run / "changes.patch"
    assert said == f"changes.patch ({file.stat().st_size} bytes)"
    assert file.read_text("latin-1").splitlines()[0] == "Changes against abc"
    git(clean, "apply", str(file))
    assert (clean / "src" / "a.py").read_bytes() == changed


def test_staged_changes_are_kept_and_new_files_named(root: Path, run: Path) -> None:
    (root / "src" / "a.py").write_text("one = 10\n")
    git(root, "add", "src/a.py")
    (root / "src" / "new.py").write_text("x = 1\n")
    (root / "notes.txt").write_text("not code\n")
    said = save_changes(run, "abc", root=root)
    assert said is not None
    assert said.endswith("; new files that are not kept: src/new.py")
    assert "+one = 10" in (run / "changes.patch").read_text()


def test_only_new_files_are_said_without_a_patch(root: Path, run: Path) -> None:
    for number in range(12):
        (root / "src" / f"n{number:02}.py").write_text("")
    said = save_changes(run, "abc", root=root)
    names = ", ".join(f"src/n{number:02}.py" for number in range(10))
    assert said == f"new files that are not kept: {names} and 2 more"
    assert list(run.iterdir()) == []


def test_secrets_do_not_reach_the_patch(root: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    (root / "src" / "a.py").write_text('api_key = "opensesame"\nprint("hf_0123456789")\n')
    said = save_changes(run, "abc", root=root)
    assert said is not None
    assert "2 values hidden (<hidden>)" in said
    written = (run / "changes.patch").read_text()
    assert '+api_key = "<hidden>"\n+print("<hidden>")\n' in written
    assert "opensesame" not in written
    assert "hf_0123" not in written


def test_a_large_patch_is_cut_at_a_line_and_says_so(
    root: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that lies across the cut is left out with its line."""
    monkeypatch.setattr(changes, "MOST_BYTES", 1000)
    (root / "src" / "a.py").write_text("".join(f"line{number:04} = 0\n" for number in range(5000)))
    said = save_changes(run, "abc", root=root)
    assert said is not None
    assert "cut after 1000 bytes" in said
    head, _, patch = (run / "changes.patch").read_text().partition("\n\n")
    assert head == "Changes against abc; cut after 1000 bytes"
    assert 980 < len(patch) <= 1000
    assert patch.endswith(" = 0\n")


def test_other_changes_at_a_resume_get_their_own_patch(root: Path, run: Path) -> None:
    for text, name in (
        ("a = 1\n", "changes.patch"),
        ("a = 2\n", "changes-2.patch"),
        ("a = 1\n", "changes.patch"),
    ):
        (root / "src" / "a.py").write_text(text)
        said = save_changes(run, "abc", root=root)
        assert said is not None
        assert said.startswith(f"{name} (")
    assert sorted(path.name for path in run.iterdir()) == ["changes-2.patch", "changes.patch"]


def test_no_checkout_is_no_error(run: Path) -> None:
    assert save_changes(run, "unknown", root=run) is None
