"""Checkpoints: what is saved comes back bit for bit, and what is damaged is passed over by name."""

from __future__ import annotations

import copy
import errno
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from tests.tiny import experience, learner, varied_contexts, weights

from groundrl.errors import CheckpointError, RunFolderError
from groundrl.learner import checkpoint
from groundrl.learner.checkpoint import MANIFEST, Checkpoints, check_manifest, load, save_model, write_folder
from groundrl.learner.learner import Learner
from groundrl.models.config import LoraConfig
from groundrl.models.load import Policy, load_policy
from groundrl.models.lora import inject

STATE = {"run": {"step": 3, "best": 0.1 + 0.2}, "method": {"sampler": {"position": 24}}, "tracker": {}}


def batch(policy, seed: int = 0) -> list:
    contexts = varied_contexts(policy.processor)
    return experience(policy.processor, contexts, lengths=(3, 5, 4), advantages=(1.0, -1.0, 0.5), seed=seed)


def trained(policy: Policy, steps: int = 2) -> Learner:
    made = learner(policy.model, policy.processor)
    for seed in range(steps):
        made.step(batch(policy, seed))
    return made


def copied(policy: Policy) -> Policy:
    return replace(policy, model=copy.deepcopy(policy.model))


def draws() -> tuple[list[float], list[float], list[float]]:
    """Numbers from the three generators, a cached second Gaussian included."""
    return (
        torch.randn(3).tolist(),
        np.random.standard_normal(3).tolist(),
        [random.gauss(0, 1) for _ in range(3)],
    )


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def saved(fresh_policy, tmp_path) -> tuple[Checkpoints, Policy, Learner]:
    """Checkpoints of steps 1, 2 and 3 with the policy and learner that wrote them."""
    made = learner(fresh_policy.model, fresh_policy.processor)
    store = Checkpoints(tmp_path / "checkpoints", keep_last=3)
    for step in (1, 2, 3):
        made.step(batch(fresh_policy, step))
        store.save(step, fresh_policy, made, STATE)
    return store, fresh_policy, made


def test_everything_comes_back_bit_for_bit(loaded_policy, saved) -> None:
    store, policy, made = saved
    np.random.standard_normal()  # leaves a second Gaussian cached
    random.gauss(0, 1)
    made.nonfinite_in_a_row = 2
    folder = store.save(3, policy, made, STATE)
    expected_draws = draws()

    other = copied(loaded_policy)
    fresh = learner(other.model, other.processor)
    fresh.step(batch(other, 9))  # stale moments must go
    state = load(folder, other, fresh)
    assert draws() == expected_draws
    assert state == STATE | {"step": 3}
    mine, theirs = weights(policy.model), weights(other.model)
    assert mine.keys() == theirs.keys()
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)
    assert fresh.updates == made.updates == 3
    assert fresh.nonfinite_in_a_row == made.nonfinite_in_a_row == 2
    pairs = list(zip(policy.model.parameters(), other.model.parameters(), strict=True))
    for a, b in pairs:
        first, second = made.optimizer.state[a], fresh.optimizer.state[b]
        assert first.keys() == second.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(first[key], second[key]) for key in first)
        assert all(first[key].dtype == second[key].dtype for key in first)

    # and the run goes on as if it had never stopped
    first, second = made.step(batch(policy, 4)), fresh.step(batch(other, 4))
    assert first == second
    mine, theirs = weights(policy.model), weights(other.model)
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)


def test_optimiser_state_stays_with_its_parameter_under_freezing(fresh_policy, tmp_path) -> None:
    """Moments are stored by name: another set of trainable parameters is refused or fits, never shifts."""
    for name, parameter in fresh_policy.model.named_parameters():
        parameter.requires_grad_(not name.startswith("model.visual."))
    made = trained(fresh_policy)
    folder = Checkpoints(tmp_path, 1).save(1, fresh_policy, made, STATE)
    other = copied(fresh_policy)
    fresh = learner(other.model, other.processor)
    load(folder, other, fresh)
    named = dict(other.model.named_parameters())
    own = dict(fresh_policy.model.named_parameters())
    for name, parameter in own.items():
        if parameter.requires_grad:
            assert torch.equal(
                made.optimizer.state[parameter]["exp_avg"], fresh.optimizer.state[named[name]]["exp_avg"]
            )
    del other.model.model.language_model.layers[2]
    shorter = learner(other.model, other.processor)
    with pytest.raises(CheckpointError, match=r"layers\.2\..*which is not learned here"):
        checkpoint._load_optimizer(shorter, checkpoint.load_file(folder / "optimizer.safetensors"))


def test_a_checkpoint_from_before_the_first_step_clears_the_moments(loaded_policy, tmp_path) -> None:
    policy, other = copied(loaded_policy), copied(loaded_policy)
    folder = Checkpoints(tmp_path, 1).save(0, policy, learner(policy.model, policy.processor), STATE)
    used = trained(other)
    load(folder, other, used)
    assert used.updates == 0
    assert not any(used.optimizer.state.values())


def test_only_plain_files_are_written(saved) -> None:
    store, _, _ = saved
    folder = store.complete()[-1]
    names = files(folder)
    assert {"manifest.json", "state.json", "optimizer.safetensors", "rng.safetensors"} <= set(names)
    assert {"model/model.safetensors", "model/config.json", "model/tokenizer.json"} <= set(names)
    assert "model/preprocessor_config.json" in names
    assert {Path(name).suffix for name in names} <= {".json", ".safetensors", ".jinja", ".txt"}
    for name in names:
        content = (folder / name).read_bytes()
        assert not content.startswith((b"\x80", b"PK"))  # pickle protocols, torch.save's zip
    entries = json.loads((folder / MANIFEST).read_text())
    assert sorted(entries) == [name for name in names if name != MANIFEST]


def test_the_saved_model_is_a_folder_that_loads(tiny_config, saved) -> None:
    store, policy, _ = saved
    folder = store.complete()[-1] / "model"
    again = load_policy(replace(tiny_config.model, path=str(folder)))
    mine, theirs = weights(policy.model), weights(again.model)
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)
    assert again.model.lm_head.weight is again.model.get_input_embeddings().weight
    text = "Give <answer> 12 </answer>"
    assert again.processor.encode(text).tolist() == policy.processor.encode(text).tolist()


def test_the_oldest_are_dropped(saved) -> None:
    store, policy, made = saved
    store.keep_last = 2
    store.save(4, policy, made, STATE)
    assert [p.name for p in store.complete()] == ["step-000003", "step-000004"]


def test_order_is_by_number_not_by_name(tmp_path) -> None:
    for name in ("step-999999", "step-1000000", "step-000002", "step-draft", "best"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-000009").write_text("a file")
    names = [p.name for p in Checkpoints(tmp_path, 1).complete()]
    assert names == ["step-000002", "step-999999", "step-1000000"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path) -> None:
    store = Checkpoints(tmp_path / "nowhere", 1)
    assert store.complete() == []
    store.clear_unfinished()
    with pytest.raises(CheckpointError, match="holds no usable checkpoint"):
        store.newest_good(print)


def flip_a_bit(folder: Path) -> None:
    file = folder / "model" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(folder: Path) -> None:
    file = folder / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def lose(folder: Path) -> None:
    (folder / "rng.safetensors").unlink()


def lose_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def half_a_manifest(folder: Path) -> None:
    file = folder / MANIFEST
    file.write_text(file.read_text()[:40])


def odd_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('["state.json"]')


def no_sizes(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"state.json": {}}')


def file_became_folder(folder: Path) -> None:
    (folder / "state.json").unlink()
    (folder / "state.json").mkdir()


DAMAGE = {
    flip_a_bit: "model/model.safetensors does not match the manifest",
    cut: "optimizer.safetensors does not match the manifest",
    lose: "rng.safetensors is missing",
    lose_manifest: "it has no manifest",
    half_a_manifest: "its manifest cannot be read",
    odd_manifest: "its manifest cannot be read",
    no_sizes: "its manifest cannot be read",
    file_became_folder: "state.json is missing",
}


def test_damage_is_named_and_the_one_before_is_used(saved) -> None:
    store, _, _ = saved
    newest = store.complete()[-1]
    keep = newest.with_name("keep")
    shutil.copytree(newest, keep)
    for damage, problem in DAMAGE.items():
        damage(newest)
        assert check_manifest(newest) == problem, damage.__name__
        said: list[str] = []
        assert store.newest_good(said.append).name == "step-000002"
        assert len(said) == 1
        assert "step-000003" in said[0]
        assert problem in said[0]
        shutil.rmtree(newest)
        shutil.copytree(keep, newest)
    assert store.newest_good(pytest.fail) == newest


def test_all_damaged_is_an_error_that_names_the_folder(saved) -> None:
    store, _, _ = saved
    for folder in store.complete():
        lose(folder)
    said: list[str] = []
    with pytest.raises(CheckpointError, match="holds no usable checkpoint"):
        store.newest_good(said.append)
    assert len(said) == 3


def test_a_half_written_folder_is_not_a_checkpoint(saved) -> None:
    store, _, _ = saved
    half = store.folder / ".writing-step-000004"
    (half / "model").mkdir(parents=True)
    (half / "model" / "model.safetensors").write_bytes(b"half")
    assert [p.name for p in store.complete()][-1] == "step-000003"
    assert store.newest_good(pytest.fail).name == "step-000003"
    store.clear_unfinished()
    assert not half.exists()
    assert len(store.complete()) == 3


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path, monkeypatch) -> None:
    """A checkpoint written again: the old one is moved aside first, and must come back."""

    def write(text: str) -> Callable[[Path], object]:
        return lambda folder: (folder / "state.json").write_text(text)

    store = Checkpoints(tmp_path, 1)
    target = tmp_path / "step-000001"
    write_folder(target, write("old"))
    rename = Path.rename

    def killed(path: Path, to: Path) -> Path:
        if path.name.startswith(".writing-"):
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        write_folder(target, write("new"))
    monkeypatch.undo()
    assert not target.exists()
    store.clear_unfinished()
    assert (target / "state.json").read_text() == "old"
    assert check_manifest(target) is None
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_a_kill_before_the_old_folder_is_removed_does_not_block_the_next_write(tmp_path, monkeypatch) -> None:
    def write(text: str) -> Callable[[Path], object]:
        return lambda folder: (folder / "model.txt").write_text(text)

    target = tmp_path / "best"
    write_folder(target, write("first"))
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_folder(target, write("second"))
    monkeypatch.undo()
    assert (target / "model.txt").read_text() == "second"
    write_folder(target, write("third"))
    assert (target / "model.txt").read_text() == "third"
    assert [p.name for p in tmp_path.iterdir()] == ["best"]


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
FROM_RUST = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("error", [NO_SPACE, FROM_RUST])
@pytest.mark.parametrize("step", [3, 4])
def test_a_full_disk_leaves_earlier_checkpoints_alone(saved, monkeypatch, error, step) -> None:
    """safetensors reports a full disk with an exception of its own, not with OSError."""
    store, policy, made = saved
    before = {folder.name: check_manifest(folder) for folder in store.complete()}

    def full(*given: object) -> None:
        raise error

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(RunFolderError, match=r"No space left on device.*earlier checkpoints are untouched"):
        store.save(step, policy, made, STATE)
    assert {folder.name: check_manifest(folder) for folder in store.complete()} == before
    assert before == dict.fromkeys(("step-000001", "step-000002", "step-000003"))
    assert sorted(p.name for p in store.folder.iterdir()) == sorted(before)


def test_a_real_write_error_is_reported_the_same_way(saved) -> None:
    """The process may not write files over 64 KiB: the error comes from the system itself."""
    import resource
    import signal

    store, policy, made = saved
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
        with pytest.raises(RunFolderError, match="File too large"):
            store.save(4, policy, made, STATE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert store.newest_good(pytest.fail).name == "step-000003"


def test_adapters_are_saved_apart_and_come_back(loaded_policy, tmp_path) -> None:
    torch.manual_seed(0)
    lora = LoraConfig(rank=4, alpha=8, dropout=0.1)
    policy, other = copied(loaded_policy), copied(loaded_policy)
    for each in (policy, other):
        inject(each.model, each.family, lora)
    made, fresh = trained(policy), learner(other.model, other.processor)
    folder = Checkpoints(tmp_path, 1).save(2, policy, made, STATE)
    assert (folder / "adapter.safetensors").is_file()
    assert not (folder / "model").exists()
    load(folder, other, fresh)
    mine, theirs = weights(policy.model), weights(other.model)
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)
    # dropout draws from the restored generator, so the next step is the same one
    torch.manual_seed(7)
    first = made.step(batch(policy, 5))
    torch.manual_seed(7)
    assert fresh.step(batch(other, 5)) == first

    narrow = copied(loaded_policy)
    inject(narrow.model, narrow.family, replace(lora, rank=4))
    del narrow.model.model.language_model.layers[2]
    with pytest.raises(CheckpointError, match="adapters do not fit the model"):
        load(folder, narrow, fresh)


def test_saving_merged_adapters_leaves_the_policy_alone(loaded_policy, tmp_path) -> None:
    """The base weights are the reference and are not in the checkpoint: they may not move by a bit."""
    torch.manual_seed(0)
    policy = copied(loaded_policy)
    inject(policy.model, policy.family, LoraConfig(rank=4, alpha=8, dropout=0.0))
    trained(policy)
    before = weights(policy.model)
    save_model(policy, tmp_path / "best")
    after = weights(policy.model)
    assert before.keys() == after.keys()
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
