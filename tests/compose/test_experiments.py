"""Every cell of every sweep composes, is typed and passes the checks, at every scale.

One test an experiment, with one seed: the scales share their compositions at paper scale.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf, open_dict
from tests.compose.experiment_files import FILES, IDS, ROOT, SCALES, content, experiment, sides
from tests.compose.training_files import training_files

from groundrl.config.compose import compose_run, compose_words
from groundrl.config.entry import typed
from groundrl.config.repo import groups
from groundrl.data.base import Split
from groundrl.sweeping import cells
from groundrl.sweeping.cells import Cell, build_cells
from groundrl.sweeping.key import config_key
from groundrl.sweeping.layout import Layout

Cells = Callable[[str, str], list[Cell]]
Composed = dict[tuple[str, ...], DictConfig]
CLAIM_SEEDS = {"vlmr1_t5": 5, "ovdblog_reward": 5}
SAMPLES = 1024


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"paths.data={training_files(tmp_path_factory.mktemp('experiments') / 'data')}"


@pytest.fixture(scope="module")
def composed() -> Composed:
    """The compositions so far, by their words."""
    return {}


@pytest.fixture
def build(data: str, composed: Composed, monkeypatch: pytest.MonkeyPatch) -> Cells:
    """The cells of a sweep at a scale with its first seed; nothing is composed twice."""

    def once(words: Sequence[str], *, with_hydra: bool = False) -> DictConfig:
        key = tuple(words)
        if key not in composed:
            composed[key] = compose_words([*words, data], with_hydra=with_hydra)
        return composed[key]

    monkeypatch.setattr(cells, "compose_words", once)
    return lambda id, scale: build_cells(Layout(), id, scale, seeds=1)


UNBUILT = {"one_gpu": {"qwen32b"}, "tiny": {"qwen32b"}}
"""Models without a twin: 32B does not fit one GPU, and of the tiny checkpoints two sizes are built."""


def axes_of(id: str) -> dict[str, list[str]]:
    parameters = content(ROOT / "sweeps" / f"{id}.yaml")["parameters"]
    return {
        name: [str(value) for value in one["values"]]
        for name, one in parameters.items()
        if "values" in one and name != "seed"
    }


def test_an_experiment_has_a_sweep_a_preset_and_its_files() -> None:
    assert len(IDS) == 15
    assert [path.stem for path in sorted((ROOT / "sweeps").glob("*.yaml"))] == IDS
    assert sorted(groups()["experiment"]) == IDS
    for id in IDS:
        assert not [name for name in FILES if not (ROOT / "experiments" / id / name).is_file()]
        text = (ROOT / "experiments" / id / "README.md").read_text("utf-8")
        assert text.startswith(f"# {id}: ")
        assert f"make sweep ID={id} SCALE=tiny SEEDS={CLAIM_SEEDS.get(id, 3)}" in text
        assert f"make table ID={id}" in text
        sweep = content(ROOT / "sweeps" / f"{id}.yaml")
        assert sweep["name"] == id
        assert sweep["parameters"]["experiment"] == {"value": id}
        assert sweep["parameters"]["seed"] == {"values": [0, 1, 2]}


@pytest.mark.parametrize("id", IDS)
def test_every_cell_is_a_run_at_every_scale(id: str, build: Cells, composed: Composed, data: str) -> None:
    wanted = {name: sorted(values) for name, values in axes_of(id).items()}
    grid = {tuple(sorted(zip(wanted, one, strict=True))) for one in itertools.product(*wanted.values())}
    made = {scale: build(id, scale) for scale in SCALES}
    for scale, found in made.items():
        assert {tuple(sorted(cell.axes.items())) for cell in found} == grid, scale
        runs = [cell for cell in found if not cell.not_testable]
        assert len({cell.key for cell in runs}) == len(runs), "two cells would be one run"
        silent = {cell.axes.get("model") for cell in found if cell.not_testable}
        assert silent == UNBUILT.get(scale, set()) & set(wanted.get("model", []))
        for cell in runs:
            words = [word for word in cell.words if word != "seed=0"]
            cfg = composed[tuple(words)]
            with open_dict(cfg):
                cfg.pop("hydra")
            given = words if scale == "tiny" else [*words, data]
            config, invocation = typed(cfg, given, multirun=False)
            assert invocation.experiment == id
            assert (config.model.path.startswith("assets/tiny-vlm/v2/")) == (scale == "tiny")
            assert (config.model.lora.rank > 0) == (scale == "one_gpu")
            measured = {"greedy", "reward", "rollout", "learner", *config.eval.chosen()}
            assert shown(id, scale) <= measured
            if scale == "tiny":
                counts = [one.samples for one in config.eval.chosen().values()]
                assert all(count is not None and count >= SAMPLES for count in counts)
    check_claims(id, steps=max(cell.steps for cell in made["tiny"]))


def shown(id: str, scale: str) -> set[str]:
    """First parts of the names of the metrics that the table, figures and claims of `id` ask for."""
    table: dict[str, Any] = experiment(id, "table")
    names = [one["metric"] for one in table["columns"] if scale not in one.get("not_testable", {})]
    names += [row["benchmark"] for row in table["rows"] if "benchmark" in row]
    for figure in table["figures"]:
        names += [figure[key] for key in ("metric", "x", "y") if key in figure]
    for claim in experiment(id, "claims")["claims"]:
        names += [test["metric"] for test in claim.get("tests", [])]
    return {name.removeprefix("onset(").split("/")[0] for name in names} - {"{benchmark}"}


def check_claims(id: str, *, steps: int) -> None:
    """Claims ask for the runs that the tiny sweep makes."""
    claims = experiment(id, "claims")
    assert (claims["scale"], claims["steps"]) == ("tiny", steps)
    assert claims["seeds"] == list(range(CLAIM_SEEDS.get(id, 3)))
    assert (claims["alpha"], claims["samples"]) == (0.05, SAMPLES)
    for claim in claims["claims"]:
        assert bool(claim.get("tests")) != bool(claim.get("not_testable"))


def test_a_run_that_several_tables_show_is_made_once() -> None:
    def key(*words: str) -> str:
        cfg = compose_words([*words, "model=tiny_s", "dataset=shapes_d3", "eval=tiny_coco_ovdeval"])
        resolved: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        return config_key(resolved)

    best = key("experiment=vlmr1_t6")
    assert key("experiment=vlmr1_t5", "reward=odlength", "algorithm/kl=none") == best
    assert key("experiment=vlmr1_t7", "algorithm=grpo_no_kl") == best
    assert key("experiment=vlmr1_t3_t4", "algorithm=grpo_no_kl") == best
    assert key("experiment=vlmr1_t5", "reward=odlength", "algorithm/kl=k3") != best
    assert key("experiment=ovdblog_tokens") == key("experiment=ovdblog_sft_rl") != best


@pytest.mark.parametrize("name", ["shapes_od_region", "coco_od_region", "refcoco_train"])
def test_parts_of_a_mixture_share_no_sample(name: str, data: str) -> None:
    """An evaluation refuses an id that occurs twice."""
    reward = "iou_rec" if name == "refcoco_train" else "ap_region"
    for split in Split:
        source = compose_run([f"dataset={name}", f"reward={reward}", data]).dataset.build(split)
        count = min(source.size or 100, 100)
        assert count == 100
        assert len({source.sample(index).id for index in range(count)}) == count


@pytest.mark.parametrize("id", IDS)
def test_what_tables_and_claims_compare_is_swept(id: str) -> None:
    for source, axes in sides(id):
        known = axes_of(source)
        assert axes.keys() == known.keys()
        assert all(str(value) in known[name] for name, value in axes.items()), axes


def test_the_published_claims_are_here_once() -> None:
    """c01 to c20 of our reading of the sources; a part of a claim carries its number and a word, and a claim
    that has no number there a word alone."""
    found = [claim["id"] for id in IDS for claim in experiment(id, "claims")["claims"]]
    assert len(found) == len(set(found))
    numbers = {name.split("_")[0] for name in found if re.match(r"c\d\d", name)}
    assert numbers == {f"c{number:02d}" for number in range(1, 21)}


@pytest.mark.parametrize("file", [Path("sweeps/scales") / f"{scale}.yaml" for scale in SCALES], ids=str)
def test_twins_are_of_options_that_exist(file: Path) -> None:
    """The reader refuses a twin that does not exist; here, an option at paper scale that does not."""
    scale = content(ROOT / file)
    for twins in (scale["twins"], *scale.get("ids", {}).values()):
        for group, options in twins.items():
            assert set(options) <= set(groups()[group])
    assert set(scale.get("ids", {})) <= set(IDS)
