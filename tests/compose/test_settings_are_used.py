"""Every accepted setting is used: each leaf of each option's Config is read by running code.

Real runs of seconds, and small probes for options that a run here cannot take (no weights, no account).
Validation, copying and the checks between groups do not count as reading. The values of the `scale` group
are read by interpolation instead; test_options.py looks for those.
"""

from __future__ import annotations

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import train
from tests.cli import make_cli
from tests.compose.benchmark_files import benchmark_files
from tests.compose.test_options import audit_file, grounding_files, saved_table
from tests.compose.tracing import config_classes, leaves, traced, unused

from groundrl.config.compose import compose_run
from groundrl.config.registry import load_all, registered
from groundrl.config.repo import groups
from groundrl.data.base import Split
from groundrl.errors import ConfigError, EngineError, NonFiniteError
from groundrl.evaluation.benchmarks import load_benchmarks
from groundrl.prompting.lint import check_prompts
from groundrl.rewards.custom import CustomRubricConfig
from groundrl.rewards.grader import Grader
from groundrl.rollout.written import written_rollout
from groundrl.run_config import PathsConfig, ScaleConfig, TaskConfig, TaskScale
from groundrl.training.truth import check_truth_is_paid
from groundrl.types import CoordinateSpace, ImageFrame, Message, Sample, Scored, Task, TextPart, Truth

SMALL = (
    "debug=smoke",
    "eval.samples=2",
    "eval.every_samples=1",
    "eval.resamples=100",
    "tracker.gallery_samples=1",
)
RUNS = (
    (
        *SMALL,
        "reward=odlength",
        "tracker=tensorboard",
        "algorithm.num_steps=2",
        "tracker.gallery_train_every=1",
    ),
    (*SMALL, "algorithm=sft", "algorithm.num_steps=1", "algorithm.batch_size=2", "rollout=reflect_prompt"),
    (*SMALL, "rollout=self_verify", "algorithm.num_steps=1"),
    (*SMALL, "algorithm=sft", "algorithm.num_steps=2", "eval.every=1", "eval=rec", "eval.only=[lisa]"),
)
NOT_TRACED = (ScaleConfig, TaskScale, TaskConfig, CustomRubricConfig)
"""Read by interpolation: the values of the scale (see test_options.py), `task.recipe`, `reward.path`."""


@pytest.mark.slow
def test_every_setting_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_all()
    wanted = {leaf for leaf in leaves(config_classes(registered())) if leaf[0] not in NOT_TRACED}
    wanted.remove((PathsConfig, "data"))  # by interpolation: conf/eval/benchmark
    assert len(wanted) > 70
    cli = make_cli(monkeypatch, capsys)
    data = f"paths.data={benchmark_files(tmp_path / 'benchmarks')}"
    with traced(wanted) as slots:
        for number, words in enumerate(RUNS):
            more = [data] if "eval=rec" in words else []
            done = cli(*words, *more, f"paths.root={tmp_path}/{number}", job=train.job, ready=train.ready)
            assert done.code == 0, done.err
        _probe_models(monkeypatch)
        _probe_data(tmp_path)
        _probe_conversations(tmp_path)
        _probe_hf(tmp_path)
        _probe_grounding_data(tmp_path)
        _probe_coco(tmp_path)
        _probe_benchmarks(tmp_path)
        _probe_prompts()
        _probe_rewards(tmp_path)
        _probe_learner()
        _probe_vllm(tmp_path, monkeypatch)
        _probe_vllm_server(tmp_path, monkeypatch)
        _probe_trackers(tmp_path, monkeypatch)
    assert unused(slots) == []


def _probe_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapters and the architecture of a checkpoint that is not here; the scripted engine."""
    from groundrl.training.plan import plan

    assert "learning" in plan(compose_run(["debug=plan", "model=qwen3b", "model.lora.rank=4"]))
    engine: Any = compose_run(["rollout/engine=scripted"]).rollout.engine.build(None, None)
    assert "<answer>" in engine.script(None, 0, 0)


def _probe_data(tmp_path: Path) -> None:
    """A user's own file, read row by row."""
    from PIL import Image

    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    row = '{{"image": "a.png", "question": "thing {0}", "boxes": [[1, 2, 30, 40]]}}'
    (tmp_path / "rows.jsonl").write_text("\n".join(row.format(number) for number in range(40)))
    config = compose_run(["dataset=jsonl", f"dataset.path={tmp_path}/rows.jsonl"])
    assert config.dataset.build(Split.TRAIN).sample(0).truth.boxes
    parts = ["+dataset@dataset.parts.a=shapes_rec", "+dataset.weights={a: 2}"]
    assert compose_run(["dataset=mixture", *parts]).dataset.build(Split.TRAIN).sample(0).truth.boxes
    for words in (["reward=ap", "dataset=shapes_d3"], ["reward=ap", "dataset=shapes_coco"]):
        assert compose_run(words).dataset.build(Split.TRAIN).sample(0).targets
    for name in ("charts", "tables"):
        read = compose_run(["reward=answer", "task=text", f"dataset={name}"]).dataset
        assert read.build(Split.TRAIN).sample(0).truth.answer
    words = ["dataset=by_difficulty", f"dataset.file={audit_file(tmp_path / 'audit.jsonl')}"]
    assert compose_run(words).dataset.build(Split.TRAIN).size == 40
    other = [f"dataset.path={tmp_path}/rows.jsonl", f"dataset.heldout_path={tmp_path}/rows.jsonl"]
    other += [f"dataset.images={tmp_path}", f"dataset.heldout_images={tmp_path}"]
    assert compose_run(["dataset=jsonl", *other]).dataset.build(Split.HELDOUT).sample(0).truth.boxes


def _probe_conversations(tmp_path: Path) -> None:
    """Questions and talks in the formats of others."""
    talk = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "3"}]
    messages = [{"role": "user", "content": "q"}]
    row = {"q": "q", "a": "B", "answer": 3, "o": ["1", "2"], "conversations": talk, "messages": messages}
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps(row))
    keys = {"question": "q", "answer": "a", "image": "i", "options": "o"}
    own = {"qa": ["task=mcq", *(f"dataset.{key}_key={name}" for key, name in keys.items())]}
    mixed = ["reward=answer", "dataset=qa", f"dataset.path={file}", f"dataset.heldout_path={file}"]
    mixed += ["dataset.question_key=q", "dataset.image_key=null", "dataset.mixed=true"]
    assert compose_run(mixed).dataset.build(Split.TRAIN).sample(0).task is Task.numeric
    for name in ("vlm_r1", "llava", "swift", "qa"):
        words = ["reward=answer", f"dataset={name}", f"dataset.path={file}", f"dataset.heldout_path={file}"]
        config = compose_run([*words, *own.get(name, [])])
        assert config.dataset.build(Split.TRAIN).sample(0).truth.answer in ("3", "B")


def _probe_hf(tmp_path: Path) -> None:
    """A table of the library `datasets`, and the same as a stream."""
    words = ["reward=answer", "dataset=hf", f"dataset.path={saved_table(tmp_path / 'saved')}"]
    for streaming in ("true", "false"):
        config = compose_run([*words, "dataset.image_key=null", f"dataset.streaming={streaming}"])
        sample = config.dataset.build(Split.TRAIN).sample(0)
        assert sample.question == f"thing {sample.truth.answer}"


def _probe_prompts() -> None:
    """How targets are listed, and a defect that is meant."""
    words = ["reward=ap", "prompt=ovd_standard_missing_space", "prompt.list_style=python"]
    config = compose_run(words)
    sample = config.dataset.build(Split.TRAIN).sample(0)
    (message,) = config.prompt.build().messages(sample)
    assert any(str(list(sample.targets)) in getattr(part, "text", "") for part in message.parts)
    assert check_prompts(config.prompt.build(), [sample]) == []
    own = Message(role="user", parts=(TextPart("Where?"),))
    talk = Sample(id="t", task=Task.rec, images=(), truth=Truth(), messages=(own,))
    assert compose_run([]).prompt.build().messages(talk) != (own,)


def _probe_benchmarks(tmp_path: Path) -> None:
    """A suite whose files are partly there, through a run that only evaluates."""
    (tmp_path / "benchmarks" / "rec" / "lisa_test.json").unlink()
    words = ["eval=rec", "eval.only=[lisa,refgta]", f"paths.data={tmp_path}/benchmarks"]
    config = compose_run([*words, "eval.on_missing=skip"])
    (found,), skipped = load_benchmarks(config.eval, config.task.name, config.prompt)
    assert (found.name, list(skipped)) == ("refgta", ["lisa"])


def _probe_coco(folder: Path) -> None:
    """Absent names beside present ones, in a file that keeps single large boxes."""
    images = [{"id": n, "file_name": "a.png", "width": 64, "height": 64} for n in range(3)]
    boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 30, 40]} for n in range(3)]
    names = [{"id": 1, "name": "thing"}, {"id": 2, "name": "other"}]
    file = folder / "coco.json"
    file.write_text(json.dumps({"images": images, "annotations": boxes, "categories": names}))
    words = ["reward=ap", "dataset=coco", f"dataset.path={file}", f"dataset.heldout_path={file}"]
    words += ["dataset.mode=positive", "dataset.negatives=[1,1]", "dataset.subset=regular"]
    assert compose_run(words).dataset.build(Split.TRAIN).sample(0).targets == ("thing", "other")


def _probe_grounding_data(tmp_path: Path) -> None:
    """Referring expressions in both forms, descriptions, and hard negatives."""
    folder = tmp_path / "grounding"
    folder.mkdir()
    files = grounding_files(folder)
    names = [f"dataset.format=json dataset.path={files['expressions']} dataset.box_order=xywh"]
    annotations = [{"ref_id": n, "ann_id": n, "split": "train" if n else "val"} for n in range(39)]
    refs = [one | {"sentences": [{"sent": "a dog"}]} for one in annotations]
    (folder / "refs.json").write_text(json.dumps(refs))
    names += [f"dataset.path={folder}/refs.json dataset.instances={files['descriptions']}"]
    tests = [("iou_rec", "refcoco", words.split()) for words in names]
    tests += [("ap", "d3", [f"dataset.path={files['descriptions']}", "dataset.include_empty=true"])]
    tests += [("ap", "ovdeval", [f"dataset.path={files['hard_negatives']}", "dataset.mode=positive"])]
    tests += [("ap", "odinw", [f"dataset.path={folder}", "dataset.patterns=[d3.json]"])]
    for reward, name, words in tests:
        config = compose_run([f"reward={reward}", f"dataset={name}", *words])
        for split in Split:
            assert config.dataset.build(split).sample(0).truth.boxes, name


def _probe_rewards(tmp_path: Path) -> None:
    """Every rubric, and every term in one, pays the truth of a toy sample more than silence."""
    own = tmp_path / "own.py"
    own.write_text("def fn(rollout, sample, context):\n    return float(bool(context.answer.boxes))\n")
    words = [[f"reward={name}"] for name in groups()["reward"] if name != "custom"]
    words += [["reward=custom", f"reward.path={own}:fn"]]
    words += [["reward=answer", f"+reward/term@reward.terms.x={name}"] for name in ("math",)]
    words += [["reward=ap", f"+reward/term@reward.terms.x={name}"] for name in ("overlong", "repetition_box")]
    for own_words in words:
        config = compose_run(own_words)
        sample = config.dataset.build(Split.HELDOUT).sample(0)
        frames = [ImageFrame(original=image.size, processed=image.size) for image in sample.images]
        space = CoordinateSpace.PIXEL_ORIGINAL
        check_truth_is_paid([sample], [tuple(frames)], space, config.reward.build())
    text = Sample(id="t", task=Task.text, images=(), truth=Truth(answer="a cat"))
    for name in ("exact", "all_match"):
        rubric = compose_run(["reward=answer", f"+reward/term@reward.terms.x={name}"]).reward.build()
        term = rubric.score(written_rollout("t", "<answer>A cat</answer>", []), text).terms["x"]
        assert isinstance(term, Scored)
        assert term.value == 1.0
    config = compose_run(["reward.grading.workers=1", "reward.grading.timeout_s=60"]).reward
    grader = Grader(config.build(), config.grading)
    grader.grade([(written_rollout("t", "", []), Sample(id="t", task=Task.rec, images=(), truth=Truth()))])
    grader.close()


def _probe_learner() -> None:
    """The KL weight, the guard against losses that are not finite, and how micro-batches are cut."""
    import numpy as np
    import torch
    from tests.tiny import plan

    from groundrl.learner.learner import Learner
    from groundrl.models.forward import Row

    algorithm: Any = compose_run(["algorithm/kl=k3", "algorithm.optim.max_nonfinite=1"]).algorithm
    assert algorithm.kl.weight() == 0.04
    for part, names in {"loss": ("gspo", "cispo", "reinforce"), "correction": ("tis", "mask")}.items():
        for name in names:
            chosen: Any = compose_run([f"algorithm/{part}={name}"]).algorithm
            assert getattr(chosen, part).build() is not None
    unneeded: Any = None
    learner = Learner(torch.nn.Linear(1, 1), unneeded, unneeded, plan(), algorithm.optim)
    with pytest.raises(NonFiniteError):
        learner._skip({"loss": float("nan"), "grad_norm": 0.0, "lr": 0.0})
    words = ["algorithm.optim.micro_tokens=1", "algorithm.optim.shared_prefix=off"]
    cut = Learner(torch.nn.Linear(1, 1), unneeded, unneeded, plan(), compose_run(words).algorithm.optim)
    ids = np.ones(2, dtype=np.int64)
    rows: list[Any] = [types.SimpleNamespace(row=Row(prompt=ids, images=(), completion=ids))] * 2
    assert cut._pieces(rows, [0, 1]) == [[0], [1]]


def _probe_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches vLLM, which is not installed here, and the patience with it."""
    import torch
    from tests.fake_vllm import engine_of

    words = ["rollout/engine=vllm", "rollout.engine.timeout_s=1", "rollout.engine.max_images=3"]
    config: Any = compose_run(words).rollout.engine
    engine = engine_of(config, torch.nn.Linear(1, 1), monkeypatch)
    given = engine.llm.settings
    assert given["limit_mm_per_prompt"] == {"image": 3, "video": 0}
    assert given["max_num_seqs"] == config.max_batch
    with pytest.raises(EngineError, match="generate took longer than 1 s"):
        engine._complete([{}], [None], "generate")


def _probe_vllm_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is given and loses requests; what those that are started would be."""
    import torch
    from tests.fake_vllm_server import FakeServer

    from groundrl.rollout.engines import vllm_server_engine
    from groundrl.rollout.engines.vllm_server_fleet import Ask

    monkeypatch.setattr(vllm_server_engine, "write_folder", lambda folder, model, processor: folder.mkdir())
    monkeypatch.setenv("KEY", "sesame")
    words = ["rollout/engine=vllm_server", "rollout.engine.backoff_s=0", "rollout.engine.retries=1"]
    words += ["rollout.engine.api_key_env=KEY", f"rollout.engine.weights_folder={tmp_path}"]
    with FakeServer(key="sesame").running() as server:
        config: Any = compose_run([*words, f"rollout.engine.urls=[{server.url}]"]).rollout.engine
        engine = config.build(torch.nn.Linear(1, 1), None)
        assert server.given == [str(engine.pushed.folder)]
        server.lose = 2
        with pytest.raises(EngineError, match="generate failed 2 times"):
            engine._ask([Ask(group=0, body={"token_ids": [1]})], "generate")
        engine.close()
    more = ["rollout.engine.servers=2", "rollout.engine.devices=['4','5']"]
    started: Any = compose_run([*words, *more]).rollout.engine
    assert started.devices_of(0, 1) == ["4", "5"]


def _probe_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B's settings are handed on; no account and no network."""
    given: dict[str, Any] = {}
    module = types.ModuleType("groundrl.tracking.wandb_tracker")
    module.__dict__["WandbTracker"] = lambda *args, **keywords: given.update(keywords)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    words = ["tracker=wandb", "tracker.project=p", "tracker.group=g"]
    compose_run(words).tracker.build_others(tmp_path, "name", {}, "preset", None)
    assert (given["project"], given["group"]) == ("p", "g")


@dataclass(kw_only=True, slots=True)
class Dead:
    """One setting that is used, one that is only validated, one that nobody looks at."""

    used: int = 1
    validated: int = 2
    forgotten: int = 3

    def __post_init__(self) -> None:
        if self.validated < 1:
            raise ConfigError("validated", "must be >= 1", got=self.validated)

    def build(self) -> int:
        return self.used


@dataclass(kw_only=True, slots=True)
class Child(Dead):
    """Inherits them and adds one that only a copy reads."""

    copied: int = 4


def test_a_dead_setting_is_caught() -> None:
    from dataclasses import asdict, replace

    wanted = leaves(config_classes([Child]))
    assert {(kind.__name__, name) for kind, name in wanted} == {
        ("Dead", "used"),
        ("Dead", "validated"),
        ("Dead", "forgotten"),
        ("Child", "copied"),
    }
    with traced(wanted) as slots:
        config = replace(Child(used=5), validated=7)
        assert asdict(config) == {"used": 5, "validated": 7, "forgotten": 3, "copied": 4}
        assert unused(slots) == ["Child.copied", "Dead.forgotten", "Dead.used", "Dead.validated"]
        assert config.build() == 5
        assert unused(slots) == ["Child.copied", "Dead.forgotten", "Dead.validated"]
    assert Child(forgotten=9).forgotten == 9
    assert not isinstance(Dead.__dict__["used"], type(next(iter(slots.values()))))
