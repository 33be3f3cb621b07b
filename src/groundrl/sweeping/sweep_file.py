"""`sweeps/<id>.yaml`: a sweep in the format of `wandb sweep`, as much of it as a sweep of words needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from groundrl.errors import ConfigError
from groundrl.sweeping.yaml_file import check_keys, mapping, read_yaml, text, wrong

KEYS = ("program", "method", "name", "description", "project", "entity", "command", "run_cap", "parameters")
REQUIRED = ("program", "method", "name", "command", "parameters")
PROGRAM = "train.py"
ARGUMENTS = "${args_no_hyphens}"
SEED = "seed"


class Method(StrEnum):
    """grid: every combination. random: `run_cap` draws."""

    grid = "grid"
    random = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """values: what the parameter can be; swept: whether it was written as `values`, as an axis is."""

    values: tuple[Any, ...]
    swept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as its file says it. parameters: by name; run_cap: most cells, None for no limit."""

    id: str
    file: Path
    method: Method
    parameters: dict[str, Parameter]
    run_cap: int | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of what is swept, the seed apart, in order of name."""
        return tuple(sorted(name for name, one in self.parameters.items() if one.swept and name != SEED))

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.parameters[SEED].values if SEED in self.parameters else (0,)

    def with_seeds(self, count: int) -> Sweep:
        """The same sweep with `count` seeds: the file's own first, then the smallest others from 0.

        Raises ConfigError for a random sweep, which draws its seeds.
        """
        if self.method is Method.random:
            problem = "a random sweep draws its seeds like everything else"
            raise ConfigError("SEEDS", problem, got=count, todo="leave SEEDS out and set run_cap")
        if count < 1:
            raise ConfigError("SEEDS", "must be >= 1", got=count, todo="e.g. SEEDS=3")
        own = self.seeds
        more = (seed for seed in range(count + len(own)) if seed not in own)
        seeds = (own + tuple(more))[:count]
        changed = {**self.parameters, SEED: Parameter(values=seeds, swept=True)}
        return replace(self, parameters=changed)


def read_sweep(file: Path) -> Sweep:
    """The sweep of a file. Raises ConfigError naming the file, the key and what is expected there."""
    content = read_yaml(file)
    check_keys(file, "", content, KEYS, REQUIRED)
    if content["program"] != PROGRAM:
        raise wrong(file, "program", "must be the one entry", content["program"], f"write {PROGRAM}")
    if content["name"] != file.stem:
        raise wrong(file, "name", "must be the file's name", content["name"], f"write name: {file.stem}")
    command = content["command"]
    if not isinstance(command, list) or not {"${program}", ARGUMENTS} <= {str(word) for word in command}:
        todo = f"write command: [${{env}}, ${{interpreter}}, ${{program}}, {ARGUMENTS}]"
        raise wrong(file, "command", "must pass the settings without hyphens", command, todo)
    if content["method"] not in tuple(Method):
        todo = f"methods: {', '.join(Method)}"
        raise wrong(file, "method", "cannot be run here", content["method"], todo)
    method, cap = Method(content["method"]), content.get("run_cap")
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
        raise wrong(file, "run_cap", "must be a number >= 1", cap, "e.g. run_cap: 20")
    if method is Method.random and cap is None:
        raise wrong(file, "run_cap", "is missing, and random draws never end", None, "e.g. run_cap: 20")
    parameters = mapping(file, "parameters", content["parameters"])
    if not parameters:
        raise wrong(file, "parameters", "is empty", None, "write reward: {values: [ap, odlength]}")
    made = {name: _parameter(file, name, one) for name, one in parameters.items()}
    return Sweep(id=file.stem, file=file, method=method, parameters=made, run_cap=cap)


def _parameter(file: Path, name: str, given: Any) -> Parameter:
    key = f"parameters.{name}"
    if not re.fullmatch(r"\+{0,2}[A-Za-z_][\w./@-]*", name):
        raise wrong(file, key, "is no name of a setting", name, "e.g. reward or algorithm/kl")
    content = mapping(file, key, given)
    if "parameters" in content:
        todo = "write the full name of each setting, e.g. algorithm.lr"
        raise wrong(file, f"{key}.parameters", "nested parameters are not read", None, todo)
    check_keys(file, key, content, ("value", "values"))
    if len(content) != 1:
        todo = "value: x for one, values: [x, y] for an axis"
        raise wrong(file, key, "needs either value or values", sorted(content) or None, todo)
    if "value" in content:
        return Parameter(values=(_value(file, f"{key}.value", name, content["value"]),), swept=False)
    values = content["values"]
    if not isinstance(values, list) or not values:
        raise wrong(file, f"{key}.values", "must be a list of values", values, "write values: [x, y]")
    read = tuple(_value(file, f"{key}.values[{at}]", name, one) for at, one in enumerate(values))
    return Parameter(values=read, swept=True)


def _value(file: Path, key: str, name: str, value: Any) -> Any:
    if name == SEED and (isinstance(value, bool) or not isinstance(value, int)):
        raise wrong(file, key, "must be a whole number", value, "e.g. values: [0, 1, 2]")
    if isinstance(value, list):
        return [_value(file, f"{key}[{at}]", "", one) for at, one in enumerate(value)]
    if value is None:
        todo = 'write "null" in quotes: the agent of W&B passes an unquoted one on as the word None'
        raise wrong(file, key, "is empty", "null", todo)
    if not isinstance(value, bool | int | float | str):
        todo = "write each setting as a parameter of its own, e.g. algorithm.lr"
        raise wrong(file, key, "must be a text, number or list", value, todo)
    return text(file, key, value) if isinstance(value, str) else value
