"""A run's model, exported: loadable where only the folder is, with a card that says where it comes from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import train
from tests.cli import Cli, make_cli
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration

from groundrl.config.repo import resolve
from groundrl.errors import RunFolderError
from groundrl.training.export import export, main

pytestmark = pytest.mark.slow


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(monkeypatch, capsys)


def trained(cli: Cli, folder: Path, *words: str) -> Path:
    done = cli("debug=smoke", *words, f"paths.output_dir={folder}", job=train.job, ready=train.ready)
    assert done.code == 0, done.err
    return folder


def logits(model: torch.nn.Module) -> np.ndarray:
    ids = torch.arange(20, 32)[None]
    with torch.no_grad():
        return model.eval()(input_ids=ids, position_ids=torch.arange(12).expand(3, 1, 12)).logits.numpy()


def test_the_best_and_the_last_model_load_elsewhere(cli: Cli, tmp_path: Path) -> None:
    run = trained(cli, tmp_path / "run")
    moved = tmp_path / "elsewhere"
    export(run, tmp_path / "out", last=True)
    shutil.move(tmp_path / "out", moved)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(moved, use_safetensors=True)
    own = Qwen2_5_VLForConditionalGeneration.from_pretrained(run / "checkpoints/step-000004/model")
    assert np.array_equal(logits(model), logits(own))
    assert AutoTokenizer.from_pretrained(moved).chat_template
    card = (moved / "README.md").read_text("utf-8")
    facts = json.loads((run / "result.json").read_text("utf-8"))
    assert facts["run"]["commit"] in card
    assert "After step 4 of `python train.py debug=smoke" in card
    value = facts["eval"]["after"]["greedy/iou"]["value"]
    assert f"| greedy/iou | {facts['eval']['before']['greedy/iou']['value']:.3f} [" in card
    assert f"{value:.3f} [" in card
    assert main([str(run), str(tmp_path / "best")]) == 0
    assert (tmp_path / "best" / "model.safetensors").read_bytes() == (
        run / "best/model.safetensors"
    ).read_bytes()
    with pytest.raises(RunFolderError, match="exists"):
        export(run, moved)
    with pytest.raises(RunFolderError, match="trained no adapters"):
        export(run, tmp_path / "none", adapter=True)


def test_adapters_alone_give_what_they_give_merged(cli: Cli, tmp_path: Path) -> None:
    from peft import PeftModel

    run = trained(cli, tmp_path / "run", "model.lora.rank=4", "model.lora.alpha=64", "algorithm.lr=0.01")
    export(run, tmp_path / "merged", last=True)
    export(run, tmp_path / "adapter", adapter=True)
    start = resolve("assets/tiny-vlm/v1/rec-start")
    base = Qwen2_5_VLForConditionalGeneration.from_pretrained(start)
    before = logits(base)
    with_adapters = logits(PeftModel.from_pretrained(base, tmp_path / "adapter"))
    merged = logits(Qwen2_5_VLForConditionalGeneration.from_pretrained(tmp_path / "merged"))
    assert np.abs(with_adapters - merged).max() < 1e-4
    assert np.abs(merged - before).max() > 1e-2  # they do something
    assert "library_name: peft" in (tmp_path / "adapter" / "README.md").read_text("utf-8")
