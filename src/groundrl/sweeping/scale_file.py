"""`sweeps/scales/<scale>.yaml`: what a sweep that is written at paper scale becomes at another one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundrl.config.locate import closest
from groundrl.config.repo import groups
from groundrl.sweeping.yaml_file import check_keys, mapping, read_yaml, text, wrong

KEYS = ("words", "twins", "ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTestable:
    """An option without a twin, and why."""

    reason: str


Twin = str | NotTestable
Twins = dict[str, dict[str, Twin]]
"""By group, by the option at paper scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """words: added to every cell; twins: for every sweep; ids: twins of single sweeps, which come first."""

    name: str
    file: Path
    words: tuple[str, ...]
    twins: Twins
    ids: dict[str, Twins]

    def groups(self, id: str) -> tuple[str, ...]:
        """Groups whose options have twins in sweep `id`."""
        return tuple(sorted({*self.twins, *self.ids.get(id, {})}))

    def twin(self, id: str, group: str, option: str) -> Twin:
        """What stands for an option of a group that has twins. Raises ConfigError when nothing is listed."""
        listed = {**self.twins.get(group, {}), **self.ids.get(id, {}).get(group, {})}
        if option not in listed:
            todo = f"add {option}: TWIN or {option}: {{not_testable: REASON}}; listed: {', '.join(listed)}"
            raise wrong(self.file, f"twins.{group}", f"has no twin for an option of {id}", option, todo)
        return listed[option]


def read_scale(file: Path) -> Scale:
    """The scale of a file. Raises ConfigError naming the file, the key and what is expected there."""
    content = read_yaml(file)
    check_keys(file, "", content, KEYS)
    words = content.get("words") or []
    if not isinstance(words, list):
        raise wrong(file, "words", "must be a list of settings", words, "e.g. words: [scale.threads=1]")
    for number, one in enumerate(words):
        if "=" not in text(file, f"words[{number}]", one):
            raise wrong(file, f"words[{number}]", "has no value", one, "write KEY=VALUE")
    ids = mapping(file, "ids", content.get("ids") or {})
    return Scale(
        name=file.stem,
        file=file,
        words=tuple(words),
        twins=_twins(file, "twins", content.get("twins") or {}),
        ids={id: _twins(file, f"ids.{id}", own) for id, own in ids.items()},
    )


def _twins(file: Path, key: str, given: Any) -> Twins:
    out: Twins = {}
    for group, options in mapping(file, key, given).items():
        where = f"{key}.{group}"
        if group not in groups():
            todo = f"{closest(group, tuple(groups()))}groups: {', '.join(groups())}"
            raise wrong(file, where, "no such group", None, todo)
        found = mapping(file, where, options)
        out[group] = {name: _twin(file, f"{where}.{name}", group, one) for name, one in found.items()}
    return out


def _twin(file: Path, key: str, group: str, given: Any) -> Twin:
    if isinstance(given, dict):
        check_keys(file, key, given, ("not_testable",), ("not_testable",))
        return NotTestable(reason=text(file, f"{key}.not_testable", given["not_testable"]))
    option = text(file, key, given)
    if option not in groups()[group]:
        listed = ", ".join(groups()[group])
        todo = f"{closest(option, groups()[group])}options: {listed}"
        raise wrong(file, key, f"{group} has no such option", option, todo)
    return option
