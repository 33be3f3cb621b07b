"""Measures what attacks on an answer gain under every reward option, and writes docs/reward_attacks.md.

The exit code is not 0 when an option breaks what is declared of it (`groundrl.evaluation.attack_table`).

    python scripts/attack_rewards.py [--scenes 1000] [--seed 0] [--output docs/reward_attacks.md]
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from omegaconf.errors import InterpolationToMissingValueError

from groundrl.config.compose import compose_run
from groundrl.config.repo import groups
from groundrl.evaluation.attack_scenes import Base, make_scenes
from groundrl.evaluation.attack_table import DECLARED, EXACT, Cell, measure, violations
from groundrl.rewards.attacks import ATTACKS, BLIND, AttackName
from groundrl.rewards.rubric import Rubric
from groundrl.types import Task

PAGE = Path("docs/reward_attacks.md")
TITLES = {Task.ovd: "Detection", Task.rec: "Referring expressions"}

INTRODUCTION = """\
# What attacks on an answer gain

Written by `{command}`; do not edit.

Each number is the mean over random scenes of reward(attacked) - reward(answer) on the same scene, with
its 95 % bootstrap interval; bold: the attack pays. The format term is included with weight 1, and
attacked answers keep the asked form. About 15 % of the detection scenes hold nothing; there every answer
but "None" loses.

`hardened` options promise that no attack pays on average and that the order of items never counts.
`faithful` ones keep what was published: AP pays for boxes added behind the true ones (a copy may take a
neighbouring object, or pass a threshold that the first box missed), its value depends on the order of
items, and a repetition penalty on exact copies is evaded by jitter. The command fails when a promise is
broken or a known gain is not there.

Answers (`groundrl.evaluation.attack_scenes.Base`) and attacks (`groundrl.rewards.attacks.AttackName`):
"""

Tables = Mapping[str, list[Cell]]
"""Cells by reward option."""


def rubrics() -> Iterator[tuple[str, Rubric]]:
    """Every reward option of a task that has attacks, its format term weighted 1 as published."""
    for name in groups()["reward"]:
        try:
            config = compose_run([f"reward={name}"]).reward
        except InterpolationToMissingValueError as error:  # the user must set something
            print(f"reward={name} is left out: {' '.join(str(error).split())[:120]}")
            continue
        if config.task in ATTACKS:
            if "format" in config.terms:
                config.terms["format"].weight = 1.0
            yield name, config.build()


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _grid(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows), ""]


def gain_text(cell: Cell) -> str:
    """The gain with its interval, bold where even the lower bound is a gain."""
    gain = cell.gain
    if max(abs(gain.low), abs(gain.high)) <= EXACT:
        return "0"
    text = f"{gain.value:+.4f} ({gain.low:+.4f}, {gain.high:+.4f})"
    return f"**{text}**" if gain.low > EXACT else text


def gain_table(tables: Tables, base: Base, attacks: Iterable[AttackName]) -> list[str]:
    """Attacks on one kind of answer: a row each, a column per option."""
    picked = {name: {c.attack: c for c in cells if c.base is base} for name, cells in tables.items()}
    before = ["mean reward before", *(f"{next(iter(row.values())).before:.3f}" for row in picked.values())]
    rows = [[f"`{name}`", *(gain_text(row[name]) for row in picked.values())] for name in attacks]
    head = ["", *(f"{name}<br>{DECLARED.get(name, 'undeclared')}" for name in tables)]
    return _grid(head, [before, *rows])


def blind_table(tables: Tables, attacks: Iterable[AttackName]) -> list[str]:
    """Mean rewards of answers that look at nothing, beside those of noisy answers."""
    blind = [name for name in attacks if name in BLIND]
    rows: list[list[str]] = []
    for name, cells in tables.items():
        noisy = {cell.attack: cell for cell in cells if cell.base is Base.NOISY}
        values = [f"{noisy[attack].after:.3f}" for attack in blind]
        better = [attack for attack in blind if noisy[attack].gain.low > EXACT]
        rows.append([name, f"{noisy[blind[0]].before:.3f}", *values, ", ".join(better) or "none"])
    return _grid(["option", "noisy answers", *(f"`{name}`" for name in blind), "better than noisy"], rows)


def page(tables: Tables, *, command: str, broken: list[str]) -> str:
    """The whole page, as markdown."""
    lines = [*INTRODUCTION.format(command=command).splitlines(), ""]
    lines += [*_documented(Base), "", *_documented(AttackName), ""]
    for task, attacks in ATTACKS.items():
        own = {name: cells for name, cells in tables.items() if {c.attack for c in cells} == set(attacks)}
        for base in dict.fromkeys(cell.base for cells in own.values() for cell in cells):
            lines += [f"## {TITLES[task]}: {base} answers", "", *gain_table(own, base, attacks)]
        lines += [f"## {TITLES[task]}: answers that look at nothing", "", *blind_table(own, attacks)]
    lines += ["## Broken promises", "", *([f"* {line}" for line in broken] or ["None."]), ""]
    return "\n".join(lines)


def _documented(kind: type) -> list[str]:
    """The names in an enumeration's docstring as a block of text."""
    _, _, names = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    return ["```text", *names.splitlines(), "```"]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="measure what attacks gain under every reward option")
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=PAGE)
    options = parser.parse_args(words)
    tables: dict[str, list[Cell]] = {}
    broken: list[str] = []
    for name, rubric in rubrics():
        scenes = make_scenes(rubric.task, options.scenes, seed=options.seed)
        tables[name] = measure(rubric, scenes, seed=options.seed)
        broken += violations(name, tables[name])
        print(f"{name}: {len(tables[name])} cells", flush=True)
    broken += [f"{name}: declared, but no such option" for name in DECLARED if name not in tables]
    command = f"python scripts/attack_rewards.py --scenes {options.scenes} --seed {options.seed}"
    options.output.write_text(page(tables, command=command, broken=broken), encoding="utf-8")
    print(options.output)
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
