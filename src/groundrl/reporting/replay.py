"""Would the words of a run still compose to the settings it ran with?

    python -m groundrl.reporting.replay RUN_DIR

Composes the saved words with the configs of today and compares with the settings saved then, key by key. The
exit code is 0 when they are equal, 1 on drift, 2 when the folder is no run. Code, versions, data and start
checkpoint are compared too, and what differs is noted; that is no drift.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.compose import compose_words
from groundrl.config.entry import guard, typed
from groundrl.config.refusals import refusal
from groundrl.config.words import check_words, parted
from groundrl.data.base import Split
from groundrl.errors import ConfigError, DataError, NoFileError, RunFolderError, UserError
from groundrl.run_config import RunConfig
from groundrl.training import provenance
from groundrl.training.run_folder import CONFIG, OVERRIDES, RESULT, check_run_folder

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting that differs. kind: added (today only), removed (then only) or changed; values as YAML."""

    key: str
    kind: str
    then: str
    today: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """refused: why the words no longer compose or are accepted, empty when they are; changes: settings that
    differ; notes: what else differs, or could not be compared."""

    refused: str
    changes: list[Change]
    notes: list[str]

    @property
    def drifted(self) -> bool:
        return bool(self.refused or self.changes)


def replay(folder: Path) -> Replayed:
    """Compare a run with today. Raises RunFolderError when `folder` is no run or its files cannot be read."""
    check_run_folder(str(folder), "RUN_DIR")
    words, then = _read(folder / OVERRIDES), _read(folder / CONFIG)
    if not isinstance(words, list) or not isinstance(then, dict):
        raise RunFolderError(
            f"{folder}: {OVERRIDES} holds no list or {CONFIG} no mapping; the run is damaged"
        )
    own = [str(word) for word in cast("list[Any]", words)]
    facts, notes = _facts(folder)
    try:
        check_words(own)
        composed = compose_words(own)
        resolved = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    except (HydraException, OmegaConfBaseException) as error:
        return Replayed(refused=_refused(refusal(error, own), own), changes=[], notes=notes)
    except UserError as error:
        return Replayed(refused=_refused(error, own), changes=[], notes=notes)
    today: Any = yaml.safe_load(yaml.safe_dump(resolved))
    changes = list(differences(then, today))
    try:
        config, _ = typed(composed, own, multirun=False)
    except (DataError, NoFileError) as error:
        return Replayed(refused="", changes=changes, notes=[*notes, f"data cannot be read today: {error}"])
    except OmegaConfBaseException as error:
        return Replayed(refused=_refused(refusal(error, own), own), changes=changes, notes=notes)
    except UserError as error:
        return Replayed(refused=_refused(error, own), changes=changes, notes=notes)
    return Replayed(refused="", changes=changes, notes=[*notes, *_circumstances(facts, config)])


def differences(then: Any, today: Any, prefix: str = "") -> Iterator[Change]:
    """Leaves that differ between two plain configurations, in order of their keys.

    A mapping that is empty, or that only one side has, counts as a leaf where the other has none. Kinds of
    numbers differ too (1 and 1.0, 1 and true); NaN equals NaN.
    """
    if isinstance(then, dict) and isinstance(today, dict):
        old, new = cast("dict[Any, Any]", then), cast("dict[Any, Any]", today)
        for key in sorted({*old, *new}, key=str):
            name = f"{prefix}.{key}" if prefix else str(key)
            if key not in new:
                yield from (
                    Change(key=k, kind="removed", then=v, today=ABSENT) for k, v in _leaves(old[key], name)
                )
            elif key not in old:
                yield from (
                    Change(key=k, kind="added", then=ABSENT, today=v) for k, v in _leaves(new[key], name)
                )
            else:
                yield from differences(old[key], new[key], name)
    elif (before := _shown(then)) != (after := _shown(today)):
        yield Change(key=prefix, kind="changed", then=before, today=after)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in cast("dict[Any, Any]", value).items():
            yield from _leaves(item, f"{name}.{key}")
    else:
        yield name, _shown(value)


def _shown(value: Any) -> str:
    """YAML on one line, so that the text "1" and the number 1 look different."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("\n...\n").strip()


def _refused(error: UserError, words: Sequence[str]) -> str:
    """The reason, and the word that it is about where one can be told."""
    key = error.key if isinstance(error, ConfigError) else ""
    near = [word for word in words if _about(parted(word)[0], key)]
    word = max(near, key=lambda one: len(parted(one)[0])) if near else _culprit(words)
    return f"the word {word!r}: {error}" if word else str(error)


def _about(word: str, key: str) -> bool:
    return bool(key) and (
        word == key or key.startswith((f"{word}.", f"{word}/")) or word.startswith(f"{key}.")
    )


def _culprit(words: Sequence[str]) -> str | None:
    """The last word without which the others compose; None when no single one is."""
    for number in range(len(words) - 1, -1, -1):
        rest = [*words[:number], *words[number + 1 :]]
        try:
            OmegaConf.to_container(compose_words(rest), resolve=True)
        except (HydraException, OmegaConfBaseException):
            continue
        return words[number]
    return None


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunFolderError(f"{path}: cannot be read ({first}); the run is damaged") from None


def _facts(folder: Path) -> tuple[Mapping[str, Any], list[str]]:
    """What `result.json` says of the circumstances, and why it says nothing."""
    path = folder / RESULT
    if not path.is_file():
        return {}, [f"there is no {RESULT}: commit, versions, data and start checkpoint are not known"]
    try:
        facts = json.loads(path.read_text("utf-8"))["run"]
    except (OSError, ValueError, KeyError, TypeError):
        facts = None
    if not isinstance(facts, dict):
        return {}, [f"{RESULT} cannot be read: commit, versions, data and start checkpoint are not known"]
    return cast("dict[str, Any]", facts), []


def _circumstances(facts: Mapping[str, Any], config: RunConfig) -> Iterator[str]:
    """Notes on code, versions, data and start checkpoint that differ from those of the run."""
    if not facts:
        return
    yield from _note("commit", facts, provenance.commit)
    yield from _note("versions", facts, lambda: provenance.stated(provenance.versions()))
    yield from _note("train_fingerprint", facts, lambda: config.dataset.build(Split.TRAIN).fingerprint())
    yield from _note("heldout_fingerprint", facts, lambda: config.dataset.build(Split.HELDOUT).fingerprint())
    yield from _note("start_fingerprint", facts, lambda: provenance.start(config.model))


def _note(name: str, facts: Mapping[str, Any], today: Callable[[], str]) -> Iterator[str]:
    if name not in facts:
        yield f"{name} was not recorded"
        return
    try:
        now = today()
    except (OSError, UserError) as error:
        yield f"{name} cannot be had today: {error}"
        return
    if now != facts[name]:
        yield f"{name} was {facts[name]}, is {now}"


def lines(replayed: Replayed) -> list[str]:
    """The comparison as text, one setting or note a line."""
    out: list[str] = []
    if replayed.refused:
        out.append(f"no longer accepted: {replayed.refused}")
    for one in replayed.changes:
        out.append(f"{one.kind:<8} {one.key}: {one.then} -> {one.today}")
    out += [f"note     {note}" for note in replayed.notes]
    if replayed.drifted:
        out.append(f"drift: {len(replayed.changes)} settings differ" if replayed.changes else "drift")
    else:
        out.append("equal: today's configs give the settings of the run")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m groundrl.reporting.replay", description="Compare a run's settings with today's."
    )
    parser.add_argument("run_dir", type=Path, help="the folder of a run")
    options = parser.parse_args(arguments)

    def run() -> int:
        replayed = replay(options.run_dir)
        print("\n".join(lines(replayed)))
        return int(replayed.drifted)

    return guard(run)


if __name__ == "__main__":
    raise SystemExit(main())
