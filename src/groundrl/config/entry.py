"""From the command line to a typed, checked `RunConfig`, and from any user error to one line.

No torch here: `--help`, a misspelt option and a wrong value must answer at once.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from hydra.core.hydra_config import HydraConfig
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.invocation import Invocation
from groundrl.errors import GroundRLError

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig


def prepare() -> None:
    """Make Hydra hand us its exceptions instead of printing them."""
    os.environ["HYDRA_FULL_ERROR"] = "1"


def freeze(cfg: DictConfig) -> tuple[RunConfig, Invocation]:
    """Resolve, type and check a composed configuration, and set the process up for it.

    Raises ConfigError naming the full key of the setting that is wrong.
    """
    from groundrl.config.checks import check
    from groundrl.config.locate import located

    resolved: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    config: Any = located(cfg)
    hydra = HydraConfig.get()
    choice = hydra.runtime.choices.get("experiment")
    invocation = Invocation(
        overrides=tuple(hydra.overrides.task),
        experiment=choice if choice not in (None, "null") else None,
        resolved=resolved,
        multirun=str(hydra.mode).endswith("MULTIRUN"),
    )
    check(config, invocation)
    set_threads(config.threads)
    return config, invocation


def set_threads(threads: int | None) -> None:
    """Fix the threads of the numerical libraries; they read this when they are first imported."""
    if threads is None:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def guard(call: Callable[..., int | None], *args: Any) -> int:
    """The exit code of `call(*args)`; a user's error becomes one line on stderr and 2, without a traceback.

    Anything else keeps its traceback.
    """
    shown = _WithoutSchemas(sys.stdout) if "--help" in sys.argv[1:] else sys.stdout
    try:
        with contextlib.redirect_stdout(shown):
            return call(*args) or 0
    except GroundRLError as error:
        return _say(str(error), error.exit_code)
    except (HydraException, OmegaConfBaseException) as error:
        return _say(one_line(error), 2)


class _WithoutSchemas(io.TextIOBase):
    """Keeps the schema groups, which nobody chooses, out of `--help`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        lines = text.split("\n")
        self.stream.write("\n".join(line for line in lines if not line.startswith("schema/")))
        return len(text)


def _say(message: str, code: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


def one_line(error: Exception) -> str:
    """What Hydra or OmegaConf found wrong, as `<key>: <what>; <what to do>`."""
    text = str(error)
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and (match := re.search(r"Could not find '([^']+)'", text)):
        group, _, name = match.group(1).rpartition("/")
        options = [word for word in re.findall(r"^\t(\S+)$", text, flags=re.M) if word != "auto"]
        close = difflib.get_close_matches(name, options, n=1)
        hint = f"; did you mean {close[0]}" if close else ""
        return f"{group}: no option named {name!r}{hint}; options: {', '.join(options)}"
    if isinstance(error, OverrideParseException):
        first = text.splitlines()[0]
        return f"{error.override}: cannot be read ({first}); quote the whole word: 'key=value'"
    if isinstance(error, ConfigCompositionException):
        if match := re.search(r"Could not override '([^']+)'", text):
            return _unknown(match.group(1))
        if match := re.search(r"Error merging override (\S+)", text):
            key, _, value = match.group(1).partition("=")
            problem = str(cause).splitlines()[0] if cause else "does not fit"
            return f"{key}: {problem}, got {value!r}; give a value of the right type"
    if match := re.search(r"full_key: (\S+)", text):
        return f"{match.group(1)}: {text.splitlines()[0]}; see make show"
    return text


def _unknown(key: str) -> str:
    names = known_keys(key)
    leaf = key.rpartition(".")[2]
    close = difflib.get_close_matches(leaf, names, n=1)
    hint = f"; did you mean {close[0]}" if close else ""
    listed = f"settings there: {', '.join(names)}" if names else "see python train.py --help"
    return f"{key}: no such setting{hint}; {listed}"


def known_keys(key: str) -> list[str]:
    """The settings that exist beside `key` in the configuration of this command line."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from groundrl.config.repo import conf_dir

    words = [word for word in sys.argv[1:] if "=" in word and not word.startswith("-")]
    kept = [word for word in words if not word.lstrip("+~").startswith(f"{key}=") and "," not in word]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            node: Any = compose("config", overrides=kept)
            for part in key.split(".")[:-1]:
                node = node[part]
            return sorted(str(name) for name in node)
    except (HydraException, OmegaConfBaseException, KeyError, TypeError, AttributeError):
        return []
