# pyright: reportMissingImports=false
"""Steps of TRL's GRPOTrainer on a folder, in TRL's own environment (benchmarks/grpo_step.py starts this).

One optimiser step: P prompts of one image, G completions of exactly T tokens, transformers' generate, beta 0.
Prints one JSON line with CPU seconds of every step after the first, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_DISABLED": "true"}

import torch
import trl.trainer.utils
from datasets import Dataset
from measure import Peak, picture, question
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

warnings.filterwarnings("ignore")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    for name in ("prompts", "group", "tokens", "size", "steps", "micro"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--compact", action="store_true", help="score completion positions only, on CPU too")
    parser.add_argument("--output", required=True, help="scratch folder of the trainer")
    options = parser.parse_args()
    torch.set_num_threads(1)
    processor: Any = AutoProcessor.from_pretrained(options.folder)
    processor.tokenizer.padding_side = "left"  # its gradients are wrong with right padding
    limits = {"shortest_edge": 3136, "longest_edge": options.size**2}
    processor.image_processor.size = limits
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        options.folder, dtype=torch.float32, attn_implementation="sdpa"
    )
    rows = [
        {"prompt": [{"role": "user", "content": question()}], "image": picture(number, options.size)}
        for number in range(options.prompts)
    ]
    if options.compact:
        trl.trainer.utils._use_triton = lambda device: True
    banned = json.loads((Path(options.folder) / "banned.json").read_text())
    rollouts = options.prompts * options.group
    config = GRPOConfig(
        output_dir=options.output, per_device_train_batch_size=options.micro,
        gradient_accumulation_steps=rollouts // options.micro, num_generations=options.group,
        max_completion_length=options.tokens, num_iterations=1, beta=0.0, temperature=1.0,
        generation_kwargs={"min_new_tokens": options.tokens, "suppress_tokens": banned},
        bf16=False, fp16=False, use_cpu=True, gradient_checkpointing=False, use_vllm=False,
        max_steps=options.steps + 1, learning_rate=1e-5, lr_scheduler_type="constant", report_to="none",
        logging_strategy="no", save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        dataloader_num_workers=0, dataloader_pin_memory=False, seed=1, optim="adamw_torch_fused",
    )  # fmt: skip

    def reward(completions: list[Any], **_: Any) -> list[float]:
        return [float(len(one[0]["content"]) % 7) for one in completions]

    seconds: list[float] = []
    generating: list[float] = []
    peak = Peak()

    class Clock(TrainerCallback):
        def on_step_begin(self, *args: Any, **keywords: Any) -> None:
            generating.append(0.0)
            if not seconds:
                peak.begin()
            self.start = time.process_time()

        def on_step_end(self, *args: Any, **keywords: Any) -> None:
            seconds.append(time.process_time() - self.start)

    trainer = GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(rows),
        processing_class=processor, callbacks=[Clock()],
    )  # fmt: skip
    own = trainer._generate_single_turn

    def generate(*args: Any, **keywords: Any) -> Any:
        start = time.process_time()
        out = own(*args, **keywords)
        generating[-1] += time.process_time() - start
        return out

    trainer._generate_single_turn = generate
    trainer.train()
    learning = [whole - part for whole, part in zip(seconds, generating, strict=True)]
    parts = {"step": seconds[1:], "generate": generating[1:], "learn": learning[1:]}
    print(json.dumps(parts | peak.end()))


if __name__ == "__main__":
    main()
