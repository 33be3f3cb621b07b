"""Warnings before a run has its display: on stderr, each once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from PIL import Image
from tests.cli import make_cli

from groundrl.config.notices import notices


def test_a_warning_is_said_once_on_the_present_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("groundrl.somewhere")
    with notices():
        for text in ("one", "two", "one"):
            logger.warning("%s\n  wrapped", text)
        logger.info("quiet")
    logger.warning("outside")
    assert "warning: one wrapped\nwarning: two wrapped\n" in capsys.readouterr().err


def test_what_a_loader_warns_of_reaches_the_terminal_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hydra's own logging options would disable every logger that exists."""
    line = '{{"image": "{0}.png", "question": "thing {0}", "boxes": [[1, 2, 30, 40]]}}\n'
    for number in range(30):
        Image.new("RGB", (64, 64)).save(tmp_path / f"{number}.png")
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(line.format(number) for number in range(30)) + "{\n")

    def job(config: object, invocation: object) -> int:
        logging.getLogger("groundrl.data.rows").warning("from inside the job")
        return 0

    cli = make_cli(monkeypatch, capsys)
    done = cli("dataset=jsonl", f"dataset.path={file}", "dataset.on_error=skip", job=job)
    assert done.code == 0
    assert done.err.count("1 rows were skipped") == 1
    assert "warning: from inside the job" in done.err
