"""A pickle may hold plain data and nothing else."""

from __future__ import annotations

import builtins
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from groundrl.data.unpickle import load_plain
from groundrl.errors import DataError

PLAIN = [{"a": 1, "b": [2.5, True, None, ("x", -(2**70))]}, "ä"]


def put(folder: Path, content: bytes) -> Path:
    file = folder / "refs(unc).p"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_read_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    assert load_plain(put(tmp_path, pickle.dumps(PLAIN, protocol))) == PLAIN


def test_a_text_of_python_2_is_utf8(tmp_path: Path) -> None:
    """SHORT_BINSTRING (U) with length 2: the two bytes of ä."""
    assert load_plain(put(tmp_path, b"\x80\x02U\x02\xc3\xa4.")) == "ä"


class Touch:
    """Pickles to a call that writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_call_is_refused_and_not_made(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    file = put(tmp_path, pickle.dumps([1, {"x": Touch(made)}], protocol))
    with pytest.raises(DataError, match=r"refs\(unc\).p: names (posix|nt)\.mkdir, but only plain data"):
        load_plain(file)
    assert not made.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL and REDUCE
        b"(S'true'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'true'\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",  # STACK_GLOBAL
        b"\x80\x02cbuiltins\neval\nq\x00X\x03\x00\x00\x001+1\x85R.",
        pickle.dumps(builtins.list),  # a bare reference to a harmless type
        pickle.dumps(Path("x")),
        pickle.dumps(1 + 2j),
        pickle.dumps(bytearray(b"x"), 2),
    ],
)
def test_every_way_to_name_a_global_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="only plain data may be in a pickle"):
        load_plain(put(tmp_path, content))


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1}), b"x", bytearray(b"x")])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [[v]], lambda v: {"k": (v,)}])
def test_other_types_are_refused_however_deep(tmp_path: Path, value: object, wrap: Any) -> None:
    kind = type(value).__name__
    with pytest.raises(DataError, match=f"holds a {kind}, but only plain data"):
        load_plain(put(tmp_path, pickle.dumps(wrap(value), 5)))


def test_a_key_is_looked_at_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds a bytes"):
        load_plain(put(tmp_path, pickle.dumps({b"k": 1}, 4)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps(PLAIN)[:-3],
        b"\x80\x02U\x01\xff.",  # no UTF-8
        b"\x80\xff.",  # unknown protocol
        b"h\x07.",  # memo entry that was never put
        b"Pxyz\n.",  # persistent id
        b"\x82\x01.",  # unregistered extension code
        b"0.",  # POP of an empty stack
        b"}}b.",  # BUILD on a dict
        b"I1\nI2\n\x85R.",  # REDUCE of an int
    ],
)
def test_damaged_bytes_are_a_data_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="is not a readable pickle"):
        load_plain(put(tmp_path, content))


def test_a_list_that_holds_itself_ends(tmp_path: Path) -> None:
    own: list[Any] = []
    own.append(own)
    read: Any = load_plain(put(tmp_path, pickle.dumps(own)))
    assert read[0] is read
