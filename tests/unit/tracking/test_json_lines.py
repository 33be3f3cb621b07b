"""The JSON-lines file: nothing written earlier is lost, whatever a kill left behind."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrl.tracking.lines import JsonLines, json_safe, read_lines, to_json, write_json


class Colour(StrEnum):
    RED = "red"


def test_append_writes_one_line_at_once(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "deep" / "a.jsonl")
    lines.append({"step": 1, "x": 0.5})
    assert lines.path.read_bytes() == b'{"step": 1, "x": 0.5}\n'
    lines.append({"step": 2, "x": None})
    assert lines.path.read_bytes() == b'{"step": 1, "x": 0.5}\n{"step": 2, "x": null}\n'


def test_reopened_file_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    JsonLines(path).append({"step": 1})
    JsonLines(path).append({"step": 2})
    assert [record["step"] for record in read_lines(path).records] == [1, 2]


def test_nothing_is_glued_to_a_half_written_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2, "metr')
    JsonLines(path).append({"step": 2})
    read = read_lines(path)
    assert [record["step"] for record in read.records] == [1, 2]
    assert read.unreadable == 1


def test_truncate_drops_later_steps_and_the_half_written_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"step": 3}\n{"step": 2, "kind": "eval"}\n{"step": 3, "me')
    assert JsonLines(path).truncate_after(2) == 2
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n{"step": 2, "kind": "eval"}\n'


def test_truncate_of_an_open_file_drops_the_half_written_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path)
    lines.append({"step": 1})
    lines.append({"step": 4})
    with path.open("ab") as other:
        other.write(b'{"step": 1, "metr')
    assert lines.truncate_after(1) == 2
    assert path.read_bytes() == b'{"step": 1}\n'
    lines.append({"step": 2})
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


def test_truncate_keeps_what_it_does_not_understand(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    kept = b'not json\n[1]\n\xff\xfe\n{"no": "step"}\n{"step": "9"}\n{"step": 1}\n'
    path.write_bytes(kept + b'{"step": 8}\n')
    assert JsonLines(path).truncate_after(1) == 1
    assert path.read_bytes() == kept


def test_truncate_keeps_a_whole_line_that_lacks_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path)
    path.write_bytes(b'{"step": 1}')
    assert lines.truncate_after(1) == 0
    assert path.read_bytes() == b'{"step": 1}\n'


def test_a_kill_before_the_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path)
    lines.append({"step": 5})

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        lines.truncate_after(1)
    assert path.read_bytes() == b'{"step": 5}\n'


@given(steps=st.lists(st.integers(0, 9), max_size=20), cut=st.integers(-1, 10), tail=st.binary(max_size=12))
def test_truncate_keeps_exactly_the_steps_up_to_the_cut(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], cut: int, tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    lines = JsonLines(path)
    for step in steps:
        lines.append({"step": step})
    with path.open("ab") as other:
        other.write(b"{" + tail.replace(b"\n", b"").replace(b"}", b""))
    lines.truncate_after(cut)
    assert [record["step"] for record in read_lines(path).records] == [step for step in steps if step <= cut]
    assert read_lines(path).unreadable == 0


def test_json_safe_makes_plain_values() -> None:
    value = {
        "nan": float("nan"),
        "inf": np.float32("-inf"),
        "half": np.float32(0.5),
        "count": np.int64(3),
        "array": np.array([1.0, np.nan]),
        "yes": True,
        Colour.RED: Colour.RED,
        "path": Path("a/b"),
        "pair": (1, 2),
    }
    assert json_safe(value) == {
        "nan": None,
        "inf": None,
        "half": 0.5,
        "count": 3,
        "array": [1.0, None],
        "yes": True,
        "red": "red",
        "path": "a/b",
        "pair": [1, 2],
    }
    assert type(json_safe(Colour.RED)) is str


def test_json_safe_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="object"):
        json_safe({"x": object()})


def test_lone_surrogates_and_newlines_stay_inside_one_ascii_line() -> None:
    text = "\ud800 line\nbreak \u2028 é"
    written = to_json({"text": text})
    assert written.isascii()
    assert len(written.splitlines()) == 1
    assert json.loads(written)["text"] == text


def test_read_counts_lines_that_are_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n3\n' + b"[" * 100_000 + b'\n{"b": 2}\n')
    read = read_lines(path)
    assert read.records == [{"a": 1}, {"b": 2}]
    assert read.unreadable == 2


def test_write_json_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": None}
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_the_final_evaluation_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    rows = [{"step": 2, "kind": "eval"}, {"step": 4, "kind": "train"}, {"step": 4, "kind": "eval"},
            {"step": 4, "phase": "eval"}, {"step": 4, "phase": "train"}]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert JsonLines(path).truncate_after(4, final=4) == 2
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == [rows[0], rows[1], rows[4]]
    assert JsonLines(path).truncate_after(2, final=4) == 2
