"""Where things are, and the commands that name the places."""

from __future__ import annotations

from pathlib import Path

from groundrl.sweeping.layout import Layout


def test_the_command_that_goes_on_names_the_folder_of_ones_own(tmp_path: Path) -> None:
    shared = Layout(root=tmp_path)
    assert shared.again("x", "tiny", 3) == "make sweep ID=x SCALE=tiny SEEDS=3"
    own = Layout(root=tmp_path, into=tmp_path / "my results")
    assert own.again("x", "tiny", 3) == "make sweep ID=x SCALE=tiny SEEDS=3 INTO='my results'"
    elsewhere = Layout(root=tmp_path / "checkout", into=tmp_path / "mine")
    assert elsewhere.again("x", "tiny", 1).endswith(f"INTO={tmp_path}/mine")
