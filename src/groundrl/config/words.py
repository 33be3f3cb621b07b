"""The words of a command line, looked at before anything is composed.

Hydra accepts some words without effect (a preset that does not exist, a key given twice, a group removed)
and fails on others with an exception that names nothing. They are refused here.
"""

from __future__ import annotations

from collections.abc import Sequence

from groundrl.config.locate import closest
from groundrl.config.repo import groups
from groundrl.errors import ConfigError

PLAIN_FLAGS = (
    "--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc",
)  # fmt: skip
VALUE_FLAGS = (
    "--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd",
    "--experimental-rerun",
)  # fmt: skip
OPTIONAL_FLAGS = ("--info", "-i")
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
PRESETS = "experiment"


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """(Hydra's flags, settings): flags may stand anywhere. Raises ConfigError on an unknown flag."""
    flags: list[str] = []
    settings: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        if not word.startswith("-"):
            settings.append(word)
        elif name not in PLAIN_FLAGS + VALUE_FLAGS + OPTIONAL_FLAGS:
            bare = word.lstrip("-")
            todo = f"write {bare}" if "=" in bare else f"write {bare.replace('-', '_') or 'key'}=VALUE"
            raise ConfigError(word, "settings are written without dashes", todo=todo)
        else:
            flags.append(word)
            takes = word in VALUE_FLAGS or (word in OPTIONAL_FLAGS and rest[:1] and rest[0] in INFO)
            if takes and rest:
                flags.append(rest.pop(0))
    return flags, settings


def is_multirun(flags: Sequence[str]) -> bool:
    return "-m" in flags or "--multirun" in flags


def check_words(words: Sequence[str]) -> None:
    """Raise ConfigError on the first word that Hydra would take without effect or choke on."""
    seen: dict[str, str] = {}
    for word in words:
        key, value = parted(word)
        if not key:
            raise ConfigError(word, "has no key", todo="write key=value")
        if key in seen:
            raise ConfigError(key, "is given twice", got=f"{seen[key]} and {word}", todo="keep one of them")
        seen[key] = word
        options = groups().get(key, ())
        listed = f"options: {', '.join(options)}"
        if word.startswith("~"):
            if options:
                raise ConfigError(
                    key, "a group cannot be left out", got=word, todo=f"choose one of its {listed}"
                )
        elif "=" not in word:
            todo = f"write {key}=OPTION; {listed}" if options else f"write {key}=VALUE"
            raise ConfigError(key, "has no value", todo=todo)
        elif value == "{}":
            raise ConfigError(
                key, "an empty mapping changes nothing", got=value, todo=f"write {key}.NAME=VALUE"
            )
        elif key == PRESETS:
            _check_presets(value)
        elif options and value in ("", "null"):
            raise ConfigError(key, "needs an option", got=value, todo=listed)


def quoted(word: str) -> str:
    """The word with its value in quotes where Hydra could not read it otherwise: a value that holds `=`.

    Run folders are named `reward=ap,seed=1-...`, and `resume=FOLDER` must be readable as it was printed.
    """
    key, separator, value = word.partition("=")
    if not separator or "=" not in value or value[:1] in ("'", '"', "[", "{") or "(" in value:
        return word
    return key + '="' + value.replace('"', '\\"') + '"'


def parted(word: str) -> tuple[str, str]:
    """(key, value) of a word, without `+`, `++` or `~`."""
    key, _, value = word.lstrip("+~").partition("=")
    return key.strip(), value.strip()


def _check_presets(value: str) -> None:
    """A preset that does not exist: Hydra would go on without one."""
    if value == "null" or "(" in value or "[" in value:
        return
    options = groups().get(PRESETS, ())
    for name in value.split(","):
        if name not in options:
            listed = f"options: {', '.join(options)}" if options else "conf/experiment has no presets"
            raise ConfigError(PRESETS, "no such preset", got=name, todo=closest(name, options) + listed)
