"""What a run prints, on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groundrl.tracking.display import Display

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
RESULT = {
    "status": "finished",
    "steps": 240,
    "eval": {
        "before": {"acc": {"value": 0.312, "low": 0.28, "high": 0.344}},
        "after": {"acc": {"value": 0.58, "low": 0.546, "high": 0.612}},
        "difference": {"acc": {"value": 0.268, "low": 0.231, "high": 0.305}},
    },
}


class Stream(io.TextIOWrapper):
    """A stream of a given encoding that may be a terminal."""

    def __init__(self, *, terminal: bool = False, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


class Gone(Stream):
    """A pipe whose reader has left."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


@contextmanager
def columns(monkeypatch: pytest.MonkeyPatch, width: int) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "40")
    yield


def run_all(display: Display) -> None:
    """Everything a run can print."""
    with display:
        display.header({"run folder": "outputs/x", "model": "[red]tiny[/red]"})
        display.evaluation(0, {"acc": {"value": 0.3, "low": 0.2, "high": 0.4}, "len": None}, "before")
        for step in range(1, 4):
            display.stage("rollout")
            display.step(step, 3, {"reward/total": step / 4, "time/step": 2.0})
        display.message("careful — naïve", logging.WARNING)
        display.finish(RESULT, "outputs/x", "make report RUN=outputs/x")


def test_plain_output_to_the_letter() -> None:
    stream = Stream()
    run_all(Display(stream=stream, environ={}))
    assert stream.text == (
        "run folder  outputs/x\n"
        "model       [red]tiny[/red]\n"
        "\n"
        "eval step 0 (before)  acc 0.300 [0.200, 0.400]  len -\n"
        "step 1/3  2.000 s  reward 0.250  eta 4s\n"
        "step 2/3  2.000 s  reward 0.500  eta 2s\n"
        "step 3/3  2.000 s  reward 0.750  eta 0s\n"
        "warning: careful — naïve\n"
        "\n"
        "finished after 240 steps\n"
        "\n"
        "metric  before                after                 difference\n"
        "acc     0.312 [0.280, 0.344]  0.580 [0.546, 0.612]  +0.268 [+0.231, +0.305] *\n"
        "* the interval of the difference excludes 0\n"
        "\n"
        "run folder  outputs/x\n"
        "next        make report RUN=outputs/x\n"
    )


@pytest.mark.parametrize(
    "environ", [{}, {"FORCE_COLOR": "1"}, {"TERM": "xterm-256color", "TTY_COMPATIBLE": "1"}]
)
def test_no_escape_codes_outside_a_terminal(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    stream = Stream()
    run_all(Display(stream=stream, environ=environ))
    assert "\x1b" not in stream.text


def test_a_dumb_terminal_gets_plain_lines() -> None:
    stream = Stream(terminal=True)
    run_all(Display(stream=stream, environ={"TERM": "dumb"}))
    assert "\x1b" not in stream.text


def test_a_terminal_gets_a_bar_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Stream(terminal=True)
    with columns(monkeypatch, 120):
        run_all(Display(stream=stream, environ={"TERM": "xterm-256color"}))
    assert COLOUR.search(stream.text)
    assert "━" in stream.text
    assert "\x1b[?25h" in stream.text, "the cursor is shown again"


def test_no_color_takes_the_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Stream(terminal=True)
    with columns(monkeypatch, 120):
        run_all(Display(stream=stream, environ={"TERM": "xterm-256color", "NO_COLOR": "1"}))
    assert not COLOUR.search(stream.text)
    assert "reward" in stream.text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("width", [1, 20, 80, 300])
@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_crashes(encoding: str, width: int, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=terminal, encoding=encoding)
    with columns(monkeypatch, width):
        run_all(Display(stream=stream, environ={"TERM": "xterm"}))
    assert "0.580" in stream.text.replace("\n", "")


def test_a_narrow_terminal_gets_the_table_as_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=True)
    with columns(monkeypatch, 50):
        Display(stream=stream, environ={"TERM": "xterm", "NO_COLOR": "1"}).finish(RESULT, "x")
    assert "acc\n  before      0.312 [0.280, 0.344]\n" in stream.text.replace("\r", "")


def test_characters_the_encoding_lacks_become_question_marks() -> None:
    stream = Stream(encoding="ascii")
    Display(stream=stream, environ={}).message("naïve — \ud800")
    assert stream.text == "na?ve ? ?\n"


def test_control_characters_cannot_move_the_cursor() -> None:
    stream = Stream()
    Display(stream=stream, environ={}).message("a\x1b[2J\x1b]0;title\x07b\rc\x9bd")
    assert stream.text == "a]0;titlebcd\n"


def test_a_lost_terminal_does_not_stop_the_run() -> None:
    run_all(Display(stream=Gone(), environ={}))
    run_all(Display(stream=Gone(terminal=True), environ={"TERM": "xterm"}))
    closed = Stream()
    closed.close()
    run_all(Display(stream=closed, environ={}))


def test_log_records_go_through_the_display(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    root.addHandler(handler)
    stream = Stream()
    try:
        with Display(stream=stream, environ={}):
            logging.getLogger("groundrl.test").warning("inside %d", 1)
            logging.getLogger("groundrl.test").error("bad")
        logging.getLogger("groundrl.test").warning("outside")
    finally:
        root.removeHandler(handler)
    assert stream.text == "warning: inside 1\nerror: bad\n"
    assert capsys.readouterr().err == "outside\n"


def test_the_bar_is_taken_down_when_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=True)
    before = sys.stdout

    def fail() -> None:
        with Display(stream=stream, environ={"TERM": "xterm"}) as display:
            display.step(1, 9, {})
            raise RuntimeError

    with columns(monkeypatch, 80), pytest.raises(RuntimeError):
        fail()
    assert stream.text.count("\x1b[?25l") == stream.text.count("\x1b[?25h") == 1
    assert sys.stdout is before


def test_lines_printed_by_others_are_not_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=True)
    monkeypatch.setattr(sys, "stdout", stream)
    with columns(monkeypatch, 80), Display(environ={"TERM": "xterm", "NO_COLOR": "1"}) as display:
        display.step(1, 9, {"reward/total": 0.5})
        print("printed by a library")
        display.step(2, 9, {"reward/total": 0.6})
    assert re.search(r"(\x1b\[2K|^)printed by a library\r?\n", stream.text)


def test_step_time_falls_back_to_the_clock() -> None:
    times = iter([10.0, 13.0, 16.0])
    stream = Stream()
    display = Display(stream=stream, environ={}, clock=lambda: next(times))
    for step in (1, 2, 3):
        display.step(step, 5, {})
    assert stream.text == "step 1/5\nstep 2/5  eta 9s\nstep 3/5  eta 6s\n"


@pytest.mark.parametrize(
    "result", [{}, {"eval": None}, {"status": "interrupted", "eval": {}}, {"eval": {"after": {}}}]
)
def test_a_result_without_evaluations(result: dict[str, Any]) -> None:
    stream = Stream()
    Display(stream=stream, environ={}).finish(result, "outputs/x")
    assert stream.text == f"\n{result.get('status', 'ended')}\n\nrun folder  outputs/x\n"
