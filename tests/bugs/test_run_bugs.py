"""Known kinds of bug about whole runs: the reference's class, hangs, resuming, memory, and checkpoints that
need the folder they came from. B52 stands in tests/unit/models/test_families.py."""

from __future__ import annotations

import copy
import shutil
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train
from scripts.kill_test import outcome
from tests.cli import make_cli
from tests.tiny import experience, learner, plan, scorer, varied_contexts
from tests.unit.models.tiny_families import build
from tests.unit.rollout.test_alignment import BOXES, Source

from groundrl.data.sampler import Sampler
from groundrl.learner.checkpoint import save_model
from groundrl.learner.config import OptimConfig
from groundrl.learner.learner import Learner
from groundrl.learner.logprobs import Scorer
from groundrl.learner.objective import PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.models.config import LoraConfig, ModelConfig
from groundrl.models.family import FAMILIES
from groundrl.models.forward import Row
from groundrl.models.load import load_policy
from groundrl.models.lora import inject
from groundrl.training.wiring import _reference
from groundrl.world import TIMEOUT_S, World

families = pytest.mark.parametrize("family", sorted(FAMILIES))


class Spy:
    """A scorer that only remembers the model it was asked to use."""

    def __init__(self) -> None:
        self.models: list[Any] = []

    def __call__(self, model: Any, rows: Any) -> Any:
        self.models.append(model)
        return type("Scores", (), {"logprobs": torch.zeros(1, 1)})


@families
def test_b51_the_reference_has_the_class_that_the_configuration_names(family: str, tmp_path: Path) -> None:
    build(family, tmp_path / "my-model")
    policy = load_policy(ModelConfig(path=str(tmp_path / "my-model")))
    spy: Any = Spy()
    _reference(policy, spy)([])
    (used,) = spy.models
    assert type(used).__name__ == FAMILIES[family].model_class
    assert type(used) is type(policy.model)
    assert used is not policy.model
    assert not any(parameter.requires_grad for parameter in used.parameters())
    with torch.no_grad():
        next(policy.model.parameters()).add_(1.0)
    own = dict(policy.model.named_parameters())
    moved = [name for name, value in used.named_parameters() if not torch.equal(value, own[name])]
    assert len(moved) == 1


def test_b51_sibling_with_adapters_there_is_no_second_model(fresh_policy) -> None:
    inject(fresh_policy.model, fresh_policy.family, LoraConfig(rank=2))
    spy: Any = Spy()
    _reference(fresh_policy, spy)([])
    assert spy.models == [fresh_policy.model]


class Counting:
    """A scorer that notes how many rows each pass had."""

    def __init__(self, inner: Scorer, seen: list[int]) -> None:
        self.inner, self.seen, self.pad_id = inner, seen, inner.pad_id

    def __call__(self, model: Any, rows: Any) -> Any:
        self.seen.append(len(rows))
        return self.inner(model, rows)


@dataclass
class Meeting:
    """What threads that stand for processes exchange; one that waits in vain fails."""

    size: int
    values: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads(World):
    """A world of threads."""

    meeting: Meeting

    def gather(self, value: Any) -> list[Any]:
        self.meeting.values[self.rank] = value
        self.meeting.barrier.wait()
        out = [self.meeting.values[rank] for rank in range(self.size)]
        self.meeting.barrier.wait()
        return out


def together(
    policy: Any, shares: list[list[Any]], **changes: Any
) -> tuple[list[int], list[dict[str, float]]]:
    """Each share of a batch is learned from by a learner of its own: passes made and metrics, by rank."""
    meeting = Meeting(len(shares))
    seen, metrics = [list[int]() for _ in shares], [dict[str, float]() for _ in shares]
    errors: list[BaseException] = []
    score = scorer(policy.processor)

    def work(rank: int, model: Any) -> None:
        counting: Any = Counting(score, seen[rank])
        made = Learner(
            model,
            counting,
            PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0),
            plan(**changes),
            OptimConfig(micro_batch=2),
            world=Threads(rank=rank, size=len(shares), meeting=meeting),
        )
        try:
            metrics[rank] = made.step(shares[rank])
        except threading.BrokenBarrierError as error:
            errors.append(error)

    workers = [
        threading.Thread(target=work, args=(rank, copy.deepcopy(policy.model))) for rank in range(len(shares))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    return [len(own) for own in seen], metrics


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("iterations", [1, 2])
def test_b53_a_process_without_rows_makes_as_many_passes_as_the_others(fresh_policy, lag, iterations) -> None:
    rows = experience(
        fresh_policy.processor,
        varied_contexts(fresh_policy.processor),
        lengths=(3, 4, 2, 5, 3),
        advantages=(1.0, -1.0, 0.5, 2.0, -0.5),
    )
    for row in rows:
        row.lag = lag
    passes, metrics = together(fresh_policy, [rows, []], num_iterations=iterations, engine_ratio=True)
    # 3 micro-batches an update, and as many to score old log-probs where the engine's are not used
    scoring = 3 if iterations > 1 and not lag else 0
    assert passes == [3 * iterations + scoring] * 2
    assert metrics[0]["learner/rows"] == metrics[1]["learner/rows"] == 5.0


def test_b53_sibling_waiting_for_the_others_has_an_end(monkeypatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **more: given.update(more))
    World(rank=0, size=2).start(cuda=False)
    assert given["timeout"] == timedelta(seconds=TIMEOUT_S)
    assert 0 < TIMEOUT_S <= 3600


def test_b54_stopped_at_step_3_of_6_a_run_ends_as_one_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Weights, moments, generators, metrics, rollouts; with two updates a batch (the issue's buffer)."""
    cli = make_cli(monkeypatch, capsys)
    words = ["debug=smoke", "scale.rec.num_steps=6", "scale.checkpoint_every=3", "eval.samples=2"]
    words += ["eval.every=0", "algorithm.num_iterations=2", f"paths.output_dir={tmp_path}/alone"]
    assert cli(*words, job=train.job, ready=train.ready).code == 0
    stopped = tmp_path / "stopped"
    shutil.copytree(tmp_path / "alone", stopped)
    shutil.rmtree(stopped / "checkpoints/step-000006")
    (stopped / "result.json").unlink()
    assert cli(f"resume={stopped}", job=train.job, ready=train.ready).code == 0
    assert outcome(stopped) == outcome(tmp_path / "alone")


@pytest.mark.parametrize("world_size", [1, 2])
def test_b54_sibling_no_sample_is_repeated_or_left_out(world_size: int) -> None:
    """Stopped after any batch, within an epoch or at its end."""

    source: Any = Source(tuple(BOXES))

    def started() -> list[Sampler]:
        return [Sampler(source, 5, rank=rank, world_size=world_size) for rank in range(world_size)]

    def walk(stops: tuple[int, ...]) -> list[str]:
        out: list[str] = []
        samplers = started()
        for batch in range(6):
            if batch in stops:
                state = samplers[0].state()
                samplers = started()
                for sampler in samplers:
                    sampler.load(state)
            out += [one.id for sampler in samplers for one in sampler.next(2 // world_size)]
        return out

    whole = walk(())
    assert [sorted(whole[n : n + 4]) for n in (0, 4, 8)] == [sorted(BOXES)] * 3
    assert all(walk(stops) == whole for stops in ((1,), (2,), (3, 4), (1, 2, 3, 4, 5)))


@pytest.mark.parametrize("micro", [1, 3])
def test_b55_no_pass_holds_more_rows_than_the_micro_batch(fresh_policy, micro: int) -> None:
    """Neither in learning nor in scoring old and reference log-probs."""
    seen: list[int] = []
    score = scorer(fresh_policy.processor)

    counting: Any = Counting(score, seen)
    rows = experience(
        fresh_policy.processor,
        varied_contexts(fresh_policy.processor),
        lengths=(3, 4, 2, 5, 3, 4, 2),
        advantages=(1.0, -1.0, 0.5, 2.0, -0.5, 0.1, 0.2),
    )
    made = learner(
        fresh_policy.model,
        fresh_policy.processor,
        beta=0.1,
        reference=lambda rows: counting(fresh_policy.model, rows).logprobs,
        optim=OptimConfig(micro_batch=micro),
        num_iterations=2,
    )
    made.scorer = counting
    made.step(rows)
    assert max(seen) == micro
    assert sum(seen) == 4 * 7  # old, reference, two passes


def test_b55_sibling_long_completions_in_many_rows_are_warned_of_before_the_run() -> None:
    from tests.unit.models.test_plan import load, sizes

    from groundrl.training.memory import estimate

    def peak(rows: int, completion: int) -> Any:
        return estimate(sizes(vocabulary=50_000), [load(ranks=1, rows=rows, completion=completion)])

    small, long, many = peak(1, 100), peak(1, 2000), peak(8, 2000)
    assert small.bytes < long.bytes < many.bytes
    assert small.warning(small.bytes, "the machine") is None
    assert many.bytes > 3 * small.bytes  # logits are chunked, activations are not
    text = many.warning(small.bytes, "the machine") or ""
    assert "decoder activations" in text
    assert "lower algorithm.optim.micro_batch" in text


def save_and_move(family: str, tmp_path: Path) -> tuple[Any, Path]:
    """A policy, and its saved folder where neither the original nor the place it was written to exist."""
    build(family, tmp_path / "original")
    policy = load_policy(ModelConfig(path=str(tmp_path / "original")))
    save_model(policy, tmp_path / "run" / "model")
    shutil.move(tmp_path / "run" / "model", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "original")
    shutil.rmtree(tmp_path / "run")
    return policy, tmp_path / "elsewhere"


@families
def test_b58_a_saved_folder_loads_elsewhere_and_gives_the_same_log_probs(family: str, tmp_path: Path) -> None:
    policy, moved = save_and_move(family, tmp_path)
    again = load_policy(ModelConfig(path=str(moved)))
    contexts = zip(varied_contexts(policy.processor), varied_contexts(again.processor), strict=True)
    for own, other in contexts:
        assert own.ids.tolist() == other.ids.tolist()
        row, same = (
            Row(prompt=c.ids, images=c.images, completion=np.arange(4, dtype=np.int64)) for c in (own, other)
        )
        with torch.no_grad():
            first = scorer(policy.processor)(policy.model.eval(), [row]).logprobs
            second = scorer(again.processor)(again.model.eval(), [same]).logprobs
        assert torch.equal(first, second)


@families
def test_b58_sibling_nothing_in_it_needs_code_or_points_back(family: str, tmp_path: Path) -> None:
    _, moved = save_and_move(family, tmp_path)
    names = {path.name for path in moved.iterdir()}
    assert {"config.json", "tokenizer.json", "preprocessor_config.json", "model.safetensors"} <= names
    assert not any(name.endswith((".py", ".bin", ".pkl")) for name in names)
    for path in moved.glob("*.json"):
        text = path.read_text("utf-8")
        assert "auto_map" not in text, path.name
        assert str(tmp_path) not in text, path.name
