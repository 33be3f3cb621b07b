"""Reading a pickle that holds plain data only: nothing in it can be called or imported."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

from groundrl.errors import DataError

PLAIN = (list, dict, str, int, float, tuple, bool, type(None))
"""The types that a file may hold."""

_BROKEN = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What the unpickler raises for damaged or hostile bytes."""


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every global, so that REDUCE, OBJ, NEWOBJ and extension codes have nothing to call."""

    def __init__(self, content: bytes, file: Path) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self.file = file

    def find_class(self, module_name: str, global_name: str, /) -> object:
        problem = f"names {module_name}.{global_name}, but only plain data may be in a pickle"
        raise DataError(self.file, problem, todo="do not open it; get the file from its owner again")


def load_plain(file: Path) -> object:
    """The content of a pickle of PLAIN types; texts that Python 2 wrote as bytes are read as UTF-8.

    Raises DataError for a file that names a global, holds another type or is damaged.
    """
    try:
        content = _PlainUnpickler(file.read_bytes(), file).load()
    except _BROKEN as error:
        problem = f"is not a readable pickle ({type(error).__name__}: {error})"
        raise DataError(file, problem, todo="get the file again") from None
    _check_plain(content, file)
    return content


def _check_plain(content: object, file: Path) -> None:
    seen: set[int] = set()
    left = [content]
    while left:
        value = left.pop()
        if type(value) not in PLAIN:
            problem = f"holds a {type(value).__name__}, but only plain data may be in a pickle"
            raise DataError(file, problem, todo="get the file from its owner again")
        if isinstance(value, (list, tuple, dict)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            left.extend(value)
            if isinstance(value, dict):
                left.extend(value.values())
