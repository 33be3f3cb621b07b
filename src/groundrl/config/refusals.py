"""What Hydra or OmegaConf refused, as the same one-line errors that the rest of the project gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from groundrl.config.compose import compose_words
from groundrl.config.locate import closest, unknown_setting
from groundrl.config.repo import groups
from groundrl.config.words import parted
from groundrl.errors import ConfigError

_KINDS: tuple[tuple[str, str, str], ...] = (
    (r"could not be converted to Integer", "must be a whole number", "NUMBER"),
    (r"could not be converted to Float", "must be a number", "NUMBER"),
    (r"is not a valid bool", "must be true or false", "true"),
    (r"is not Optional", "cannot be null", "VALUE"),
    (r"is not a ListConfig", "must be a list", "[A,B]"),
    (r"with ListConfig|Cannot assign \w+ to Dict", "must be a mapping", "{NAME: VALUE}"),
    (r"expected one of \[(.*)\]", "must be one of {}", "CHOICE"),
    (r"is not a subclass of", "is a group of settings, not one value", ""),
    (r"does not support deletion", "cannot be removed", "VALUE"),
)
"""(what OmegaConf says, what is wrong, what may be written after `key=`)."""


def refusal(error: HydraException | OmegaConfBaseException, words: Sequence[str]) -> ConfigError:
    """The user's error for an exception of Hydra's; `words` are the settings of the command line."""
    text = str(error)
    if isinstance(error, MissingConfigException) and (match := re.search(r"Could not find '([^']+)'", text)):
        return _no_option(match.group(1), text)
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if isinstance(error, ConfigCompositionException):
        found = _composition(error, text, words)
        if found is not None:
            return found
    if match := re.search(r"resolving interpolation: Missing mandatory value: (\S+)", text):
        return ConfigError(match.group(1), "has no value", todo=f"write {match.group(1)}=VALUE")
    if full_key := getattr(error, "full_key", None):
        missing = isinstance(error, MissingMandatoryValue)
        return ConfigError(
            full_key, "has no value" if missing else text.splitlines()[0], todo=f"write {full_key}=VALUE"
        )
    if match := re.search(r"Cannot find primary config '([^']+)'", text):
        return ConfigError("--config-name", "no such file in conf", got=match.group(1), todo="leave it out")
    return ConfigError("command line", text.splitlines()[0] if text else type(error).__name__)


def _composition(error: ConfigCompositionException, text: str, words: Sequence[str]) -> ConfigError | None:
    cause = str(error.__cause__ or "")
    if match := re.search(r"Could not override '([^']+)'", text):
        return _no_target(match.group(1), cause, words)
    if match := re.search(r"Error merging override (.*)", text, flags=re.S):
        return _wrong_value(match.group(1).splitlines()[0], cause)
    if match := re.search(r"Could not delete from config. '([^']+)'|Could not delete '([^'=]+)", text):
        key = match.group(1) or match.group(2)
        return ConfigError(
            key, "there is nothing of that name to remove", got=f"~{key}", todo="remove the word"
        )
    if match := re.search(r"An item is already at '([^']+)'", text):
        key = match.group(1)
        return ConfigError(key, "exists already", got=f"+{key}", todo=f"write {key}=VALUE without +")
    if match := re.search(r"Multiple values for (\S+?)\.", text):
        key = match.group(1)
        return ConfigError(
            key, "an option is chosen already", got=f"+{key}", todo=f"write {key}=OPTION without +"
        )
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        key, value = parted(match.group(1))
        todo = "add -m for one run per value, or write [a,b] for a list"
        return ConfigError(key, "has several values", got=value, todo=todo)
    if match := re.search(r"Key '([^']+)' not in '(\w+)'.*full_key: (\S+)", text, flags=re.S):
        return ConfigError(
            match.group(3),
            f"would be ignored: the chosen option has no setting {match.group(1)}",
            todo="remove it",
        )
    return None


def _no_option(path: str, text: str) -> ConfigError:
    group, _, name = path.rpartition("/")
    options = [word for word in re.findall(r"^\t(\S+)$", text, flags=re.M)]
    listed = f"options: {', '.join(options)}"
    return ConfigError(group, "no such option", got=name, todo=closest(name, options) + listed)


def _unreadable(word: str) -> ConfigError:
    key, value = parted(word)
    return ConfigError(
        key,
        "the value cannot be read",
        got=value,
        todo=f"write {key}=VALUE; a value with special characters stands in double quotes inside single "
        f"ones: '{key}=\"VALUE\"'",
    )


def _no_target(key: str, cause: str, words: Sequence[str]) -> ConfigError:
    """A word whose key is none of this run's settings, groups included."""
    base = key.partition("@")[0]
    if base in groups() and "@" not in key:
        parent, _, leaf = key.rpartition("/")
        chosen = next((word for word in words if parted(word)[0] == parent), f"the chosen option of {parent}")
        return ConfigError(key, f"would be ignored: {chosen} has no {leaf}", todo="remove it")
    if "/" in key or "@" in key:
        return ConfigError(key, "no such group in this run", todo=f"groups: {', '.join(groups())}")
    match = re.search(r"full_key: (\S+)", cause)
    missing = match.group(1) if match else key
    if "reference_type=Dict" in cause:
        return _no_entry(missing, cause, words)
    return unknown_setting(missing, tuple(known_keys(missing, words)))


def _no_entry(key: str, cause: str, words: Sequence[str]) -> ConfigError:
    parent, _, name = key.rpartition(".")
    entries = ", ".join(known_keys(key, words)) or "none"
    add = f"+{key}=VALUE"
    if "TermConfig" in cause:
        add = f"+reward/term@{key}=OPTION"
    return ConfigError(parent, f"has no entry {name}", todo=f"entries: {entries}; to add it write {add}")


def _wrong_value(word: str, cause: str) -> ConfigError:
    """A value of the wrong type; OmegaConf's cause says which key inside the word it was for."""
    key, value = parted(word)
    got = value if "=" in word else word
    if "subclass of TermConfig" in cause:
        name = ".".join(key.split(".")[:3])
        return ConfigError(
            name, "is a new term", got=got, todo=f"choose its kind: +reward/term@{name}=OPTION"
        )
    if (match := re.search(r"full_key: (\S+)", cause)) and match.group(1).startswith(key):
        key = match.group(1)
    for pattern, problem, write in _KINDS:
        if match := re.search(pattern, cause):
            problem = problem.format(*match.groups())
            place, bracket, _ = key.partition("[")
            example = f"[{write},...]" if bracket else write
            todo = f"write {place}={example}" if write else f"set one of them: {key}.NAME=VALUE"
            return ConfigError(key, problem, got=got, todo=todo)
    first = cause.splitlines()[0] if cause else "does not fit"
    return ConfigError(key, first, got=got, todo=f"write {key}=VALUE")


def known_keys(key: str, words: Sequence[str]) -> list[str]:
    """The settings that exist beside `key` with the options that `words` choose."""
    chosen = [
        word
        for word in words
        if parted(word)[0] in groups() and "," not in word and not word.startswith(("+", "~"))
    ]
    try:
        node: Any = compose_words(chosen)
        parent = key.rpartition(".")[0]
        node = OmegaConf.select(node, parent) if parent else node
    except (HydraException, OmegaConfBaseException):
        return []
    return sorted(str(name) for name in node) if OmegaConf.is_dict(node) else []
