"""The tracker options: what they build, what they refuse, and that they stay light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from groundrl.errors import ConfigError
from groundrl.tracking.config import JsonlConfig, TensorboardConfig, TrackerConfig, WandbConfig, WandbMode


class FakeRun:
    def __init__(self, wandb: FakeWandb, run_id: str) -> None:
        self.wandb = wandb
        self.id = run_id
        self.summary: dict[str, Any] = {}

    def define_metric(self, name: str, step_metric: str) -> None:
        self.wandb.calls.append(("define", name, step_metric))

    def log(self, values: dict[str, float]) -> None:
        if self.wandb.broken:
            raise BrokenPipeError("service is gone")
        self.wandb.calls.append(("log", values))

    def finish(self, exit_code: int) -> None:
        self.wandb.calls.append(("finish", exit_code))


class FakeWandb(ModuleType):
    """Stands in for the wandb package and records what it is asked."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("wandb")
        self.errors = SimpleNamespace(Error=FakeWandb.Error)
        self.calls: list[Any] = []
        self.inits: list[dict[str, Any]] = []
        self.refuse_online = False
        self.broken = False

    def Settings(self, **options: Any) -> dict[str, Any]:
        return options

    def init(self, **options: Any) -> FakeRun:
        self.inits.append(options)
        if options["mode"] == "online" and self.refuse_online:
            raise FakeWandb.Error("no network")
        return FakeRun(self, options["id"])


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return fake


def build(config: TrackerConfig, run_dir: Path, **more: Any) -> Any:
    return config.build(run_dir=run_dir, run_name="r1", config_dict=more.pop("config_dict", {}), **more)


@pytest.mark.parametrize("name", ["jsonl", "wandb", "tensorboard"])
def test_options_are_registered_and_compose(name: str) -> None:
    node = ConfigStore.instance().load(f"schema/tracker/{name}.yaml").node
    config = OmegaConf.to_object(node)
    assert isinstance(config, TrackerConfig)
    assert config.gallery_samples == 8


def test_mode_is_set_by_its_word() -> None:
    node = ConfigStore.instance().load("schema/tracker/wandb.yaml").node.copy()
    node.mode = "offline"
    config = OmegaConf.to_object(node)
    assert isinstance(config, WandbConfig)
    assert config.mode is WandbMode.offline
    with pytest.raises(ValidationError):
        node.mode = "sometimes"


def test_configs_import_nothing_heavy() -> None:
    code = (
        "import sys, groundrl.tracking.config;"
        "print([m for m in ('torch', 'wandb', 'tensorboard', 'rich', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("key", ["gallery_samples", "gallery_train_every"])
def test_negative_settings_are_refused(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonlConfig(**{key: -1})
    assert str(caught.value) == f"{key}: must not be negative, got -1; use 0 for none"
    with pytest.raises(ConfigError):
        TensorboardConfig(**{key: -1})


def test_an_empty_project_is_refused() -> None:
    with pytest.raises(ConfigError, match="project: must not be empty"):
        WandbConfig(project="")


def test_gallery_settings_reach_the_gallery(tmp_path: Path) -> None:
    gallery = JsonlConfig(gallery_samples=1, gallery_train_every=3).build_gallery(tmp_path)
    assert gallery.follows("a")
    assert not gallery.follows("b")
    assert [step for step in range(7) if gallery.wants_train(step)] == [0, 3, 6]


def test_resume_without_a_step_starts_the_record_again(tmp_path: Path) -> None:
    build(JsonlConfig(), tmp_path).log(1, "train", {"a": 1.0})
    tracker = build(JsonlConfig(), tmp_path, resume_state={})
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""
    assert tracker.state() == {"step": -1}


def test_wandb_gets_names_id_tags_and_no_secret(tmp_path: Path, wandb: FakeWandb) -> None:
    secret = {"model": {"hf_token": "hf_abc"}, "lr": 0.5}
    config = WandbConfig(project="p", entity="e", tags=["t1"])
    tracker = build(config, tmp_path, config_dict=secret)
    options = wandb.inits[0]
    expected = {
        "project": "p",
        "entity": "e",
        "name": "r1",
        "mode": "offline",
        "tags": ["t1"],
        "resume": "allow",
    }
    assert {key: options[key] for key in expected} == expected
    assert options["dir"] == str(tmp_path)
    assert options["config"] == {"model": {"hf_token": "<hidden>"}, "lr": 0.5}
    assert options["settings"]["x_disable_meta"] is True
    assert tracker.state()["wandb"] == {"id": options["id"]}


def test_wandb_continues_under_the_saved_id(tmp_path: Path, wandb: FakeWandb) -> None:
    first = build(WandbConfig(), tmp_path)
    first.log(1, "train", {"a": 1.0})
    build(WandbConfig(), tmp_path, resume_state=first.state())
    assert wandb.inits[0]["id"] == wandb.inits[1]["id"]


def test_wandb_logs_over_the_step_metric(tmp_path: Path, wandb: FakeWandb) -> None:
    tracker = build(WandbConfig(), tmp_path)
    tracker.log(3, "eval", {"x": {"value": 1.0, "low": 0.5, "high": 1.5}})
    tracker.finish("interrupted", {})
    assert wandb.calls == [
        ("define", "*", "step"),
        ("log", {"step": 3, "eval/x": 1.0, "eval/x/low": 0.5, "eval/x/high": 1.5}),
        ("finish", 1),
    ]


@pytest.mark.parametrize(
    ("mode", "key", "chosen"),
    [
        ("auto", None, "offline"),
        ("auto", "k" * 40, "online"),
        ("offline", "k" * 40, "offline"),
        ("online", None, "online"),
    ],
)
def test_wandb_mode(
    tmp_path: Path, wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch, mode: str, key: str | None, chosen: str
) -> None:
    if key:
        monkeypatch.setenv("WANDB_API_KEY", key)
    build(WandbConfig(mode=WandbMode[mode]), tmp_path)
    assert [options["mode"] for options in wandb.inits] == [chosen]


def test_auto_falls_back_to_offline(
    tmp_path: Path, wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    wandb.refuse_online = True
    build(WandbConfig(), tmp_path)
    assert [options["mode"] for options in wandb.inits] == ["online", "offline"]


def test_online_that_fails_is_an_error(tmp_path: Path, wandb: FakeWandb) -> None:
    wandb.refuse_online = True
    with pytest.raises(ConfigError, match=r"tracker.mode: W&B did not start \(no network\), got 'online'"):
        build(WandbConfig(mode=WandbMode.online), tmp_path)


def test_a_lost_service_does_not_stop_the_run(
    tmp_path: Path, wandb: FakeWandb, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = build(WandbConfig(), tmp_path)
    wandb.broken = True
    tracker.log(1, "train", {"a": 1.0})
    tracker.log(2, "train", {"a": 2.0})
    tracker.finish("finished", {})
    assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 2
    assert [record.getMessage() for record in caplog.records] == [
        "W&B stopped answering (service is gone); metrics.jsonl goes on"
    ]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="needs the package wandb; pip install wandb"):
        build(WandbConfig(), tmp_path)


def test_tensorboard_holds_the_values_and_purges_on_resume(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = build(TensorboardConfig(), tmp_path)
    for step in (1, 2, 3):
        first.log(step, "train", {"reward/total": float(step), "none": None})
    first.finish("interrupted", {})
    second = build(TensorboardConfig(), tmp_path, resume_state={"step": 2})
    second.log(3, "train", {"reward/total": 30.0})
    second.log(3, "eval", {"x": {"value": 0.5, "low": 0.25, "high": 0.75}})
    second.finish("finished", {})
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("reward/total")] == [
        (1, 1.0),
        (2, 2.0),
        (3, 30.0),
    ]
    assert [event.value for event in read.Scalars("eval/x/high")] == [0.75]
    assert sorted(read.Tags()["scalars"]) == ["eval/x", "eval/x/high", "eval/x/low", "reward/total"]


def test_the_real_wandb_records_offline_and_keeps_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    tracker = build(WandbConfig(), tmp_path, config_dict={"api_key": "opensesame", "lr": 0.5})
    tracker.log(1, "train", {"reward/total": 0.5})
    tracker.finish("finished", {})
    wandb.teardown()
    recorded = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert [path.stem for path in recorded] == [f"run-{tracker.state()['wandb']['id']}"]
    written = b"".join(path.read_bytes() for path in (tmp_path / "wandb").rglob("*") if path.is_file())
    assert b"reward/total" in written
    assert b"opensesame" not in written
