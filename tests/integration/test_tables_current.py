"""The tables in experiments/ are those that their frozen results give today."""

from __future__ import annotations

import pytest

from groundrl.config.repo import repo_root
from groundrl.errors import UserError
from groundrl.reporting.claims.history import History
from groundrl.reporting.experiments.folder import experiment_ids
from groundrl.reporting.tables.__main__ import main
from groundrl.sweeping.layout import Layout


@pytest.mark.slow
@pytest.mark.parametrize("id", experiment_ids(Layout()))
def test_the_files_of_an_experiment_are_current(id: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures are compared by name only: their bytes depend on the version of matplotlib."""
    try:
        History(repo_root()).check()
    except UserError as error:
        pytest.skip(str(error))
    code = main([id, "--check"])
    assert (code, capsys.readouterr().err) == (0, "")
