"""Scale values that a run does not refer to: setting one would be ignored without a word.

The `scale` group holds values for the recipes of all tasks and all algorithms; options pick theirs with
`${scale.${task.recipe}.lr}`. Which ones are picked can be read off the composed configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from groundrl.config.words import parted
from groundrl.errors import ConfigError

_REFERENCE = re.compile(r"\$\{(scale\.[\w.]+)\}")


def scale_references(cfg: DictConfig) -> frozenset[str]:
    """Dotted keys below `scale` that the composed configuration refers to, the recipe filled in."""
    recipe = str(OmegaConf.select(cfg, "task.recipe"))
    texts = _strings(OmegaConf.to_container(cfg, resolve=False))
    filled = (text.replace("${task.recipe}", recipe) for text in texts)
    return frozenset(key for text in filled for key in _REFERENCE.findall(text))


def check_scale_words(cfg: DictConfig, words: Sequence[str]) -> None:
    """Raise ConfigError on a word that sets a scale value which nothing in this run takes up."""
    read = scale_references(cfg)
    recipe = str(OmegaConf.select(cfg, "task.recipe"))
    for word in words:
        key, value = parted(word)
        if not key.startswith("scale."):
            continue
        if not any(key == name or name.startswith(f"{key}.") for name in read):
            raise ConfigError(
                key,
                "would be ignored: no setting of this run takes this value from the scale",
                got=value,
                todo=f"remove it; the run takes {', '.join(_siblings(key, read, recipe))}",
            )


def _siblings(key: str, read: frozenset[str], recipe: str) -> list[str]:
    """What could have been meant: values that the run takes and that are as deep as `key`."""
    deep = key.count(".") > 1
    return sorted(name for name in read if name.startswith(f"scale.{recipe}.") == deep)


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
    elif isinstance(node, str):
        yield node
