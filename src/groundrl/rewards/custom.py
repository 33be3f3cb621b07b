"""A reward function from a file of the user's, outside the repository.

    python train.py reward=custom reward.path=my_reward.py:fn

`fn(rollout, sample, context)` is called as a term's `score` and returns a number, `Scored` or `Missing`. The
file is Python that runs with the rights of the run: use only files you trust. It goes through the checks of
every reward: finite values, and at the start the truth must earn more than an unreadable answer.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.rewards.rubric import RubricConfig, TermError
from groundrl.types import Missing, Rollout, Sample, Scored, Task

Function = Callable[[Rollout, Sample, ScoreContext], Any]


def load_function(path: str) -> Function:
    """The function that `FILE.py:NAME` names. Raises ConfigError (key `path`) when it is not there."""

    def bad(problem: str, todo: str) -> ConfigError:
        return ConfigError("path", problem, got=path, todo=todo)

    file, separator, name = path.rpartition(":")
    if not separator or not file.endswith(".py") or not name.isidentifier():
        raise bad("must name a file and a function", "write FILE.py:FUNCTION")
    source = Path(file)
    if not source.is_file():
        raise bad("no such file", "give the path from here, or an absolute one")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(f"groundrl_custom_reward_{digest}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        defined = sorted(key for key, value in vars(module).items() if inspect.isfunction(value))
        raise bad(f"the file defines no function {name!r}", f"it defines {', '.join(defined) or 'none'}")
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        raise bad(
            "the function does not take (rollout, sample, context)", "give it these arguments"
        ) from None
    return function


@dataclass(frozen=True, slots=True)
class _Noted:
    """Adds a note to whatever is raised inside."""

    note: str

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(self.note)


class Custom:
    """Calls the user's function; travels between processes as its path."""

    needs = ()
    pays_truth = False

    def __init__(self, path: str, tasks: frozenset[Task]) -> None:
        self.path = path
        self.tasks = tasks
        self._function = load_function(path)

    def __reduce__(self) -> tuple[type[Custom], tuple[str, frozenset[Task]]]:
        return Custom, (self.path, self.tasks)

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored | Missing:
        """Raises what the function raises, with the sample named, and TermError on another type."""
        with _Noted(f"in the reward {self.path}, on sample {sample.id}"):
            value = self._function(rollout, sample, context)
        if isinstance(value, (Scored, Missing)):
            return value
        if isinstance(value, numbers.Real):
            return Scored(float(value))
        problem = f"returned a {type(value).__name__}, not a number, Scored or Missing"
        raise TermError(self.path, sample, problem)


@register("reward/term", "custom")
@dataclass(kw_only=True, slots=True)
class CustomConfig(TermConfig):
    """`path`: FILE.py:FUNCTION; `tasks`: the tasks it can score."""

    path: str = "???"
    tasks: list[Task] = field(default_factory=lambda: list(Task))

    def build(self) -> Custom:
        return Custom(self.path, frozenset(self.tasks))


@register("reward", "custom")
@dataclass(kw_only=True, slots=True)
class CustomRubricConfig(RubricConfig):
    """`path`: what `terms.custom.path` refers to."""

    path: str = "???"
