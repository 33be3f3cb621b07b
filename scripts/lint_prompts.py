"""Lints every prompt option on samples of the shapes worlds whose task it fits.

The exit code is 1 where an option has a defect that it does not declare, or declares one that it has not.

    python scripts/lint_prompts.py [--samples 4]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.config.repo import groups
from groundrl.data.base import Split
from groundrl.data.shapes import TASKS
from groundrl.errors import ConfigError
from groundrl.prompting.lint import is_declared, lint
from groundrl.prompting.prompt import PromptConfig
from groundrl.types import Sample


def shapes_samples(count: int) -> list[Sample]:
    """`count` samples of each world."""
    sources = [compose_run([f"dataset=shapes_{task}"]).dataset.build(Split.TRAIN) for task in TASKS]
    return [source.sample(index) for source in sources for index in range(count)]


def fitting(config: PromptConfig, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples whose task the prompt can ask for."""
    prompt = config.build()
    for sample in samples:
        try:
            prompt.check_tasks(frozenset({sample.task}))
        except ConfigError:
            continue
        yield sample


def problems(config: PromptConfig, samples: Sequence[Sample]) -> list[str]:
    """What is wrong with one option, each thing once."""
    prompt = config.build()
    findings = [found for sample in samples for found in lint(prompt.messages(sample), sample, config)]
    found = [
        f"{finding.code}: {finding.key or 'sample'}: {finding.message}"
        for finding in findings
        if not is_declared(finding, config)
    ]
    there = {finding.code for finding in findings if finding.key}
    found += [f"{code}: declared, but not there" for code in config.known_defects if code not in there]
    return list(dict.fromkeys(found))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="lint every prompt option")
    parser.add_argument("--samples", type=int, default=4, help="per shapes world")
    options = parser.parse_args(words)
    samples = shapes_samples(options.samples)
    wrong = 0
    for name in groups()["prompt"]:
        config = compose_run([f"prompt={name}"]).prompt
        own = list(fitting(config, samples))
        found = problems(config, own)
        wrong += len(found)
        declared = "".join(f" ({code} declared)" for code in config.known_defects)
        print(f"{name}: {len(own)} prompts, {len(found)} findings{declared}")
        for line in found:
            print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(guard(main, sys.argv[1:]))
