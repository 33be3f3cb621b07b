"""Who reads a setting: replaces the slots of Config classes by descriptors that note every reader."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MemberDescriptorType
from typing import Any

Leaf = tuple[type, str]
"""The class that defines a setting, and the setting's name."""

NO_USE = {"dataclasses.py", "run_checks.py"}
"""Files whose reading is no use: copying a Config, and refusing combinations."""


@dataclass(slots=True)
class Slot:
    """Stands in for one slot; `readers` are (file, function) of those who read it on an instance."""

    inner: MemberDescriptorType
    readers: set[tuple[str, str]] = field(default_factory=set)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        code = sys._getframe(1).f_code
        self.readers.add((code.co_filename.rpartition("/")[2], code.co_name))
        return self.inner.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        self.inner.__set__(instance, value)

    @property
    def used(self) -> bool:
        """Read by something else than its own validation, a copy, or the checks between groups."""
        return any(
            file not in NO_USE and function != "__post_init__" and not function.startswith("_check")
            for file, function in self.readers
        )


def config_classes(options: Iterable[type]) -> set[type]:
    """The options, their bases, and the dataclasses nested in them."""
    found: set[type] = set()
    waiting = list(options)
    while waiting:
        kind = waiting.pop()
        if kind in found or not dataclasses.is_dataclass(kind):
            continue
        found.add(kind)
        waiting += kind.__mro__[1:]
        hints = typing.get_type_hints(kind)
        for entry in dataclasses.fields(kind):
            waiting += [hints[entry.name], *typing.get_args(hints[entry.name])]
    return found


def leaves(classes: Iterable[type]) -> set[Leaf]:
    """Settings with a value of their own; those that only hold other settings are left out."""
    found: set[Leaf] = set()
    for kind in classes:
        hints = typing.get_type_hints(kind)
        for name in kind.__dict__.get("__slots__", ()):
            nested = [hints[name], *typing.get_args(hints[name])]
            if not any(dataclasses.is_dataclass(part) for part in nested):
                found.add((kind, name))
    return found


@contextmanager
def traced(wanted: Iterable[Leaf]) -> Iterator[dict[Leaf, Slot]]:
    """The readers of each leaf while the block runs."""
    slots: dict[Leaf, Slot] = {}
    try:
        for kind, name in wanted:
            slots[kind, name] = Slot(kind.__dict__[name])
            setattr(kind, name, slots[kind, name])
        yield slots
    finally:
        for (kind, name), slot in slots.items():
            setattr(kind, name, slot.inner)


def unused(slots: dict[Leaf, Slot]) -> list[str]:
    """`Class.setting` of every leaf that nothing used."""
    return sorted(f"{kind.__name__}.{name}" for (kind, name), slot in slots.items() if not slot.used)
