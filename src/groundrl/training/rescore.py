"""Stored answers judged again, without a model: other rewards, a corrected parser, more resamples.

    python -m groundrl.training.rescore RUN_DIR [reward=f1] [eval.resamples=2000]

The answers are those of the evaluations in the run folder; data, reward and evaluation are the run's own
settings, changed by the words. Nothing in the folder is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.config.words import parted
from groundrl.data.base import SampleSource, Split
from groundrl.errors import ConfigError, RunFolderError
from groundrl.evaluation.benchmarks import load_benchmarks
from groundrl.evaluation.config import Measure
from groundrl.evaluation.suite import Judge, judged
from groundrl.rewards.grader import Grader
from groundrl.run_config import RunConfig
from groundrl.training.measure import AFTER, BEFORE, answers_file
from groundrl.training.resume import saved_run

ALLOWED = ("reward", "eval.resamples", "eval.seed")


def rescore(folder: Path, words: Sequence[str]) -> list[str]:
    """Lines with every metric of each stored evaluation and its interval. Raises UserError."""
    for word in words:
        key = parted(word)[0].lstrip("+~")
        if not any(key == name or key.startswith((f"{name}.", f"{name}/", f"{name}@")) for name in ALLOWED):
            todo = f"only {', '.join(ALLOWED)} can be changed: the answers are what they are"
            raise ConfigError(key, "would not change what was answered", got=word, todo=todo)
    config, invocation = saved_run(folder)
    if words:
        given = {parted(word)[0] for word in words}
        own = [word for word in invocation.overrides if parted(word)[0] not in given]
        changed = compose_run([*own, *words])
        if changed.task.name is not config.task.name:
            problem = f"is for task {changed.task.name}, but the run answered {config.task.name}"
            raise ConfigError("reward", problem, todo="choose a reward of the same task")
        config.reward, config.eval = changed.reward, changed.eval
    grader = Grader(config.reward.build(), config.reward.grading)
    lines: list[str] = []
    try:
        for name, source, count, measure in _evaluated(config):
            judge = Judge(config.eval, grader, measure)
            for when, progress in ((BEFORE, 0.0), (AFTER, 1.0)):
                file = answers_file(folder, when, name)
                if file.is_file():
                    lines += _judged(file, source, count, judge, progress)
    finally:
        grader.close()
    if not lines:
        raise RunFolderError(f"{folder} holds no evaluated answers (eval/{BEFORE}.jsonl, eval/NAME/...)")
    return lines


def _evaluated(config: RunConfig) -> Iterator[tuple[str | None, SampleSource, int | None, Measure]]:
    """The held-out split and the benchmarks: name, samples, how many, what is measured."""
    yield None, config.dataset.build(Split.HELDOUT), config.eval.samples, Measure.plain
    chosen, _ = load_benchmarks(config.eval, config.task.name, config.prompt)
    for own in chosen:
        yield own.name, own.source, own.config.samples, own.config.measure


def _judged(file: Path, source: SampleSource, count: int | None, judge: Judge, progress: float) -> list[str]:
    sizes = [size for size in (count, source.size) if size is not None]
    samples = [replace(source.sample(index), images=()) for index in range(min(sizes))]
    lines = [f"{file}: {len(samples)} samples"]
    for metric, value in judged(file, samples, judge, progress=progress).metrics.items():
        lines.append(f"  {metric:<40} {value.value:9.4f} [{value.low:.4f}, {value.high:.4f}]")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print the lines; 2 with one line on stderr when the folder or a word cannot be used."""
    if not arguments or "=" in arguments[0]:
        usage = "usage: python -m groundrl.training.rescore RUN_DIR [reward=...] [eval.resamples=...]"
        print(usage, file=sys.stderr)
        return 2

    def run() -> None:
        print("\n".join(rescore(Path(arguments[0]), arguments[1:])))

    return guard(run, words=arguments[1:])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
