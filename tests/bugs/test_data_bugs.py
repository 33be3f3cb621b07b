"""Known kinds of bug about data files: mixed types, missing keys, Windows paths, encodings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from groundrl.data.base import Split
from groundrl.data.conversations import SwiftConfig
from groundrl.data.qa import QaConfig
from groundrl.data.rows import RowSamples
from groundrl.data.vlm_r1 import VlmR1Config
from groundrl.errors import ConfigError, DataError


def opened(folder: Path, text: str | bytes, name: str = "r.jsonl") -> RowSamples:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return VlmR1Config(path=str(file), heldout_path=str(file)).build(Split.TRAIN)


def talk(reply: object, **more: object) -> str:
    turns = [{"from": "human", "value": "How many?"}, {"from": "gpt", "value": reply}]
    return json.dumps({"conversations": turns, **more}, ensure_ascii=False)


def test_b56_rows_may_mix_numbers_and_texts(tmp_path: Path) -> None:
    source = opened(tmp_path, "\n".join((talk(1), talk("two"), talk(0.5), talk("3"))))
    assert [source.sample(index).truth.answer for index in range(4)] == ["1", "two", "0.5", "3"]


def test_b56_sibling_a_key_of_one_row_is_not_none_in_the_next(tmp_path: Path) -> None:
    """One row has a method, one an image, one neither: an Arrow table would give each all three keys."""
    Image.new("RGB", (30, 30)).save(tmp_path / "a.png")
    turns = [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "B"}]
    with_image = json.dumps({"image": "a.png", "conversations": turns})
    source = opened(tmp_path, "\n".join((talk("B", accu_reward_method="mcq"), with_image, talk(5))))
    rows = [source.sample(index) for index in range(3)]
    assert [str(row.task) for row in rows] == ["mcq", "text", "numeric"]
    assert [len(row.images) for row in rows] == [0, 1, 0]


def test_b56_sibling_nested_content_that_is_none_is_an_error_and_not_the_word(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"messages": [{"role": "user", "content": null}], "solution": "1"}')
    with pytest.raises(DataError, match=r"s\.jsonl, row 1: turn 1 has no text"):
        SwiftConfig(path=str(file)).build(Split.TRAIN)
    with pytest.raises(DataError, match="the answer None is neither"):
        opened(tmp_path, talk(None))


@pytest.mark.parametrize("path", ["C:\\images\\a.png", "images\\a.png", "C:/images/a.png"])
def test_b57_windows_paths_of_images_are_named_and_not_split(tmp_path: Path, path: str) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "?", "answer": 1, "image": path}))
    with pytest.raises(DataError, match="is a Windows path; write it relative"):
        QaConfig(path=str(file)).build(Split.TRAIN)


def test_b57_sibling_a_colon_in_the_name_of_a_file_separates_nothing(tmp_path: Path) -> None:
    assert opened(tmp_path, talk(1), "a:b.jsonl").size == 1
    with pytest.raises(ConfigError, match=r"dataset\.path: no such file, got 'C:.*a\.jsonl'"):
        VlmR1Config(path="C:\\a.jsonl").build(Split.TRAIN)


def test_b57_sibling_backslashes_that_json_does_not_know_name_the_row(tmp_path: Path) -> None:
    text = talk(1) + '\n{"image": "C:\\images\\x.png"}'  # \i is no escape of JSON
    with pytest.raises(DataError, match=r"r\.jsonl, row 2: is not JSON"):
        opened(tmp_path, text)


def test_b57_sibling_text_is_utf8_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.GBK")
    monkeypatch.setattr("locale.getpreferredencoding", lambda do_setlocale=True: "gbk")
    marked = b"\xef\xbb\xbf" + talk("猫 ü").encode()  # a byte order mark, as Windows editors write it
    assert opened(tmp_path, marked).sample(0).truth.answer == "猫 ü"
    with pytest.raises(DataError, match=r"r\.jsonl: is not UTF-8"):
        opened(tmp_path, talk("中文").encode("gbk"))
