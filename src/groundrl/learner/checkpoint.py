"""Checkpoints: written whole or not at all, verified before use, without pickle.

    checkpoints/step-000120/
        model/                  a Hugging Face folder (weights, config, tokenizer, image processor)
        adapter.safetensors     instead of weights in model/, when adapters learn
        optimizer.safetensors   moments, step counts and float32 masters by parameter name
        optimizer/              the same as shards, where several processes trained
        rng.safetensors         generator states
        state.json              step, schedule, sampler position, tracker ids, best value
        manifest.json           size and SHA-256 of every other file; written last

A folder under a temporary name is renamed when all of it is on disk, so a name `step-*` means complete; the
manifest catches what happened to it later.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from groundrl.errors import CheckpointError, RunFolderError
from groundrl.learner.learner import Learner
from groundrl.learner.shards import load_shards, save_shards
from groundrl.models.load import Policy
from groundrl.models.lora import adapter_state, has_adapters, merged
from groundrl.models.sharding import full_state, like, whole
from groundrl.world import World

MANIFEST = "manifest.json"
MASTER = "master"
SHARDS = "optimizer"
PREFIX = "step-"
TEMPORARY = ".writing-"
RETIRED = ".replaced-"


class Checkpoints:
    """The checkpoints of one run, newest kept."""

    def __init__(self, folder: Path, keep_last: int, world: World | None = None) -> None:
        self.folder = folder
        self.keep_last = keep_last
        self.world = world or World()

    def save(self, step: int, policy: Policy, learner: Learner, state: dict[str, Any]) -> Path:
        """Write the checkpoint of `step` and drop the oldest beyond `keep_last`."""
        target = self.folder / f"{PREFIX}{step:06d}"

        def write(folder: Path) -> None:
            if has_adapters(policy.model):
                adapters = _plain(adapter_state(policy.model))
                if self.world.first:
                    save_file(adapters, folder / "adapter.safetensors")
            else:
                save_model(policy, folder / "model", self.world)
            if not self.world.alone:
                save_shards(folder / SHARDS, _optimizer_state(learner))
            if self.world.first:
                if self.world.alone:
                    save_file(_plain(_optimizer_state(learner)), folder / "optimizer.safetensors")
                save_file(_rng_state(), folder / "rng.safetensors")
                (folder / "state.json").write_text(json.dumps(state | {"step": step}), encoding="utf-8")

        write_folder(target, write, self.world)
        for old in self.complete()[: -self.keep_last] if self.world.first else ():
            shutil.rmtree(old)
        return target

    def complete(self) -> list[Path]:
        """Checkpoint folders, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [p for p in self.folder.iterdir() if re.fullmatch(rf"{PREFIX}\d+", p.name) and p.is_dir()]
        return sorted(found, key=lambda p: int(p.name.removeprefix(PREFIX)))

    def clear_unfinished(self) -> None:
        """Remove what a killed writer left behind; what it had moved aside gets its name back."""
        if not self.folder.is_dir() or not self.world.first:
            return
        for aside in self.folder.glob(f"{RETIRED}*"):
            _settle(self.folder / aside.name.removeprefix(RETIRED))
        for left in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(left)

    def newest_good(self, say: Callable[[str], None]) -> Path:
        """The newest checkpoint that matches its manifest; says which were passed over and why."""
        for folder in reversed(self.complete()):
            problem = check_manifest(folder)
            if problem is None:
                return folder
            say(f"checkpoint {folder.name} cannot be used ({problem}); trying the one before it")
        raise CheckpointError(
            f"{self.folder} holds no usable checkpoint; start the run again, or begin a new one with "
            "model.init_from"
        )


def load(folder: Path, policy: Policy, learner: Learner) -> dict[str, Any]:
    """Put weights, optimiser and generators back; returns the state that was saved beside them."""
    if has_adapters(policy.model):
        weights = load_file(folder / "adapter.safetensors")
        missing = set(adapter_state(policy.model)) ^ set(weights)
        if missing:
            raise CheckpointError(f"{folder}: adapters do not fit the model, e.g. {sorted(missing)[0]}")
        load_weights(policy.model, weights)
    else:
        saved = type(policy.model).from_pretrained(
            str(folder / "model"), dtype=policy.model.dtype, trust_remote_code=False, use_safetensors=True
        )
        load_weights(policy.model, saved.state_dict())
    if (folder / SHARDS).is_dir():
        _load_optimizer(learner, load_shards(folder / SHARDS, learner.master.masters))
    else:
        _load_optimizer(learner, load_file(folder / "optimizer.safetensors"))
    _load_rng(load_file(folder / "rng.safetensors"))
    return json.loads((folder / "state.json").read_text("utf-8"))


@torch.no_grad()
def load_weights(model: Any, weights: dict[str, Tensor]) -> None:
    """Copy full values into the model, sharded or not."""
    own = model.state_dict()
    for name, value in weights.items():
        own[name].copy_(like(value, own[name]))


def save_model(policy: Policy, folder: Path, world: World | None = None) -> None:
    """A self-contained Hugging Face folder; adapters are merged in. All processes take part, one writes."""
    world = world or World()
    tokenizer, image_processor = policy.processor.tokenizer, policy.processor.image_processor
    weights: dict[str, Tensor] | None = None
    if has_adapters(policy.model):
        weights = {name: whole(value) for name, value in merged(policy.model).items()}
    elif not world.alone:
        weights = {name: value.cpu() for name, value in full_state(policy.model)}
    if not world.first:
        return
    if weights is not None:
        if policy.model.config.tie_word_embeddings:
            weights.pop("lm_head.weight", None)
        policy.model.save_pretrained(folder, state_dict=weights)
    else:
        policy.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    image_processor.save_pretrained(folder)


def write_folder(target: Path, write: Callable[[Path], None], world: World | None = None) -> None:
    """Fill a folder under a temporary name, add its manifest, flush it, and give it its name at once.

    With several processes all call `write`, between the first one's opening and its closing of the folder.
    """
    world = world or World()
    temporary = target.parent / f"{TEMPORARY}{target.name}"
    try:
        if world.first:
            if temporary.exists():
                shutil.rmtree(temporary)
            temporary.mkdir(parents=True)
        world.barrier()
        write(temporary)
        world.barrier()
        if not world.first:
            world.barrier()
            return
        entries = {
            str(file.relative_to(temporary)): {"bytes": file.stat().st_size, "sha256": _sha256(file)}
            for file in sorted(temporary.rglob("*"))
            if file.is_file()
        }
        (temporary / MANIFEST).write_text(json.dumps(entries, indent=1), encoding="utf-8")
        for path in [*temporary.rglob("*"), temporary]:
            _flush(path)
        _settle(target)
        if target.exists():
            target.rename(target.parent / f"{RETIRED}{target.name}")
        temporary.rename(target)
        _settle(target)
        _flush(target.parent)
        world.barrier()
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            _settle(target)
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise RunFolderError(
            f"cannot write {target} ({why}); earlier checkpoints are untouched: free space, then resume "
            "the run"
        ) from None


def _settle(target: Path) -> None:
    """End a replacement that was cut short: the old folder goes, or comes back if there is no new one."""
    retired = target.parent / f"{RETIRED}{target.name}"
    if not retired.exists():
        return
    if target.exists():
        shutil.rmtree(retired)
    else:
        retired.rename(target)


def check_manifest(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        entries = json.loads((folder / MANIFEST).read_text("utf-8"))
        for name, entry in entries.items():
            file = folder / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != entry["bytes"] or _sha256(file) != entry["sha256"]:
                return f"{name} does not match the manifest"
    except FileNotFoundError:
        return "it has no manifest"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its manifest cannot be read"
    return None


def _optimizer_state(learner: Learner) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {
        "updates": torch.tensor(learner.updates),
        "nonfinite_in_a_row": torch.tensor(learner.nonfinite_in_a_row),
    }
    for name, parameter in learner.master.masters.items():
        for key, value in learner.optimizer.state.get(parameter, {}).items():
            out[f"{name}/{key}"] = torch.as_tensor(value)
    out |= {f"{name}/{MASTER}": value for name, value in learner.master.copies().items()}
    return {name: value.detach() for name, value in out.items()}


def _load_optimizer(learner: Learner, tensors: dict[str, Tensor]) -> None:
    learner.updates = int(tensors.pop("updates"))
    learner.nonfinite_in_a_row = int(tensors.pop("nonfinite_in_a_row"))
    parameters = learner.master.masters
    learner.optimizer.state.clear()
    masters: dict[str, Tensor] = {}
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        if name not in parameters:
            raise CheckpointError(f"optimizer state names the parameter {name}, which is not learned here")
        if part == MASTER:
            masters[name] = value
        elif value.dim():
            learner.optimizer.state[parameters[name]][part] = like(value, parameters[name])
        else:
            # the step count too: the fused optimiser keeps it beside its parameter
            learner.optimizer.state[parameters[name]][part] = value.to(parameters[name].device)
    learner.master.load(masters)


def _rng_state() -> dict[str, Tensor]:
    """torch, numpy and Python generators. Draws of this package are seeded by place and do not need them;
    libraries' own (dropout) do."""
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    assert name == "MT19937"
    version, words, gauss_next = random.getstate()
    assert version == 3
    state = {
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "numpy_rest": torch.tensor([position, has_gauss, gauss], dtype=torch.float64),
        "python": torch.tensor(words, dtype=torch.int64),
        "python_rest": torch.tensor(math.nan if gauss_next is None else gauss_next, dtype=torch.float64),
    }
    if torch.cuda.is_available():
        state |= {f"cuda{i}": value for i, value in enumerate(torch.cuda.get_rng_state_all())}
    return state


def _load_rng(state: dict[str, Tensor]) -> None:
    torch.set_rng_state(state["torch"])
    position, has_gauss, gauss = state["numpy_rest"].tolist()
    keys = state["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), gauss))
    gauss_next = float(state["python_rest"])
    random.setstate((3, tuple(state["python"].tolist()), None if math.isnan(gauss_next) else gauss_next))
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            if f"cuda{i}" in state:
                torch.cuda.set_rng_state(state[f"cuda{i}"], i)


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: whole(value.detach()).cpu().contiguous().clone() for name, value in tensors.items()}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
