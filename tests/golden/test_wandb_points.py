"""The points of a sweep against what W&B's own sampler made of the same files (scripts/wandb_points.py)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from groundrl.sweeping.points import points, word
from groundrl.sweeping.sweep_file import Method, read_sweep

HERE = Path(__file__).parent
FILES = sorted((HERE / "wandb_sweeps").glob("*.yaml"))
WANDB: dict[str, list[dict[str, Any]]] = json.loads((HERE / "wandb_points.json").read_text("utf-8"))


def typed(points: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """1, 1.0, True and "1" are different here."""
    return [sorted((name, repr(value)) for name, value in point.items()) for point in points]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_same_points_in_the_same_order_as_wandb(file: Path) -> None:
    assert typed(points(read_sweep(file))) == typed(WANDB[file.stem])


def test_the_files_cover_what_can_differ() -> None:
    assert {file.stem for file in FILES} == set(WANDB)
    assert len(FILES) >= 6
    # 2 kl x 3 rewards x 2 seeds; the names in order, so that the seed changes fastest
    assert len(WANDB["reward_and_kl"]) == 12
    assert WANDB["reward_and_kl"][1] == {
        "algorithm/kl": "none", "model": "qwen3b", "reward": "ap50", "seed": 1,
    }  # fmt: skip
    # lr: 1e-6 twice as a number and once as the text "1e-6" (YAML), 1 = 1.0, 3e6 = 3000000: 4; beta: 3
    assert len(WANDB["numbers"]) == 4 * 3
    assert len(WANDB["booleans"]) == 5  # of 4 x 2, cut by run_cap


def test_draws_are_even_and_depend_on_the_seed() -> None:
    """Each value is drawn with chance 1/n: of 40 draws among 3, fewer than 4 of one has a chance below 0.1 %
    (binomial, p = 1/3: 0.00033)."""
    sweep = read_sweep(HERE / "wandb_sweeps" / "drawn.yaml")
    assert sweep.method is Method.random
    counts = Counter(point["reward"] for point in points(sweep))
    assert set(counts) == {"ap50", "ap", "odlength"}
    assert min(counts.values()) >= 4
    assert points(sweep, draw_seed=1) != points(sweep)
    assert points(sweep, draw_seed=0) == points(sweep)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_words_are_those_of_the_agent(file: Path) -> None:
    for point in points(read_sweep(file)):
        given = {name: {"value": value} for name, value in point.items()}
        expected = create_sweep_command_args({"args": given})["args_no_hyphens"]
        assert [word(name, value) for name, value in point.items()] == expected
