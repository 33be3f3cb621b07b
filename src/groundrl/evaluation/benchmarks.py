"""The benchmarks of a run: which there are, whether their files are, and how each is asked."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from groundrl.data.base import SampleSource, Split
from groundrl.data.overlap import image_ids
from groundrl.data.rows import OnError
from groundrl.errors import ConfigError, NoFileError
from groundrl.evaluation.config import BenchmarkConfig, EvalConfig
from groundrl.prompting.prompt import PromptConfig
from groundrl.types import Task

logger = logging.getLogger(__name__)
SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark with its samples and the prompt that asks for them."""

    name: str
    config: BenchmarkConfig
    source: SampleSource
    prompt: PromptConfig
    own_prompt: bool


def load_benchmarks(
    config: EvalConfig, task: Task, prompt: PromptConfig
) -> tuple[list[Benchmark], dict[str, str]]:
    """The chosen benchmarks, and why others are skipped, by name.

    task, prompt  those of the run: its prompt asks in benchmarks of its task

    Raises ConfigError under `eval.benchmarks.NAME`; for a missing file only with `on_missing: raise`.
    """
    found: list[Benchmark] = []
    skipped: dict[str, str] = {}
    for name, own in config.chosen().items():
        try:
            source = own.dataset.build(Split.HELDOUT)
        except NoFileError as error:
            if config.on_missing is OnError.raise_:
                todo = "get it (docs/howto/evaluate.md), choose others by eval.only=[...], or "
                raise _placed(error, name, f"{todo}eval.on_missing=skip") from None
            skipped[name] = f"{error.problem}: {error.got}"
            logger.warning("eval.benchmarks.%s is skipped: %s %s", name, error.problem, error.got)
            continue
        except ConfigError as error:
            raise _placed(error, name, error.todo) from None
        if own.samples is None and source.size is None:
            problem = "is null, but the data set has no end"
            raise ConfigError(f"eval.benchmarks.{name}.samples", problem, todo="say how many")
        foreign = source.tasks() != {task}
        asked = own.prompt if foreign else prompt
        asked.build().check_tasks(source.tasks())
        found.append(Benchmark(name=name, config=own, source=source, prompt=asked, own_prompt=foreign))
    if config.chosen() and not found:
        raise ConfigError("eval.benchmarks", "no benchmark's files are there", todo="docs/howto/evaluate.md")
    return found, skipped


def _placed(error: ConfigError, name: str, todo: str) -> ConfigError:
    """The error of a data set, its key that of the benchmark's."""
    key = error.key if error.key.startswith("dataset") else f"dataset.{error.key}"
    return ConfigError(f"eval.benchmarks.{name}.{key}", error.problem, got=error.got, todo=todo)


def shared_images(train: SampleSource, other: SampleSource) -> tuple[int, int, list[str]] | None:
    """(images of `other` that `train` has too, images of `other`, some of them); None where unknown."""
    trained, evaluated = image_ids(train), image_ids(other)
    if trained is None or evaluated is None:
        return None
    shared = sorted(trained & evaluated)
    return len(shared), len(evaluated), shared[:SHOWN]
