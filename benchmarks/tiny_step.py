"""A whole GRPO step of the tiny run against plain Hugging Face code on the same prompts.

Ours: data, prompts, sampling, rewards, advantages, learner forward and backward, optimiser.
Baseline: `generate(num_return_sequences=8)` on the same 8 prompts, then one padded forward and backward
over the 64 rows and an optimiser step; no rewards, no metrics.

Both draw exactly 24 tokens a completion (end tokens are off). Pairs are interleaved in one process with one
thread; the figure is the median of the pairs' ratios, in CPU seconds of the process.

    python benchmarks/tiny_step.py [--pairs 15] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.sampler import Sampler
from groundrl.learner.algorithms import GRPOConfig
from groundrl.learner.learner import Learner, Plan
from groundrl.learner.logprobs import Scorer
from groundrl.learner.objective import PolicyObjective
from groundrl.losses.clip import Clip
from groundrl.losses.config import Normalisation
from groundrl.models.load import Policy, load_policy
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.training.clock import StageClock
from groundrl.training.grpo import GRPO

TOKENS = 24
RESULT = Path(__file__).parent / "results" / "tiny_step.json"


def plain_step(policy: Policy, optimizer: torch.optim.Optimizer, contexts: list[Any], group: int) -> None:
    """generate, then a padded forward and backward, as a first script would have it."""
    model, processor = policy.model, policy.processor
    longest = max(len(context.ids) for context in contexts)
    ids = torch.full((len(contexts), longest), processor.pad_id)
    mask = torch.zeros_like(ids)
    for row, context in enumerate(contexts):
        ids[row, longest - len(context.ids) :] = torch.from_numpy(context.ids)
        mask[row, longest - len(context.ids) :] = 1
    pixels = torch.cat([torch.from_numpy(context.images[0].patches) for context in contexts])
    grids = torch.tensor([context.images[0].grid_thw for context in contexts])
    kinds = (ids == processor.image_id).int()
    model.eval()
    with torch.no_grad():
        out = model.generate(
            input_ids=ids, attention_mask=mask, pixel_values=pixels, image_grid_thw=grids,
            mm_token_type_ids=kinds, do_sample=True, top_k=0, temperature=1.0,
            min_new_tokens=TOKENS, max_new_tokens=TOKENS, num_return_sequences=group,
            suppress_tokens=list(processor.banned_ids),
        )  # fmt: skip
    model.train()
    rows = len(out)
    full_mask = torch.cat([mask.repeat_interleave(group, 0), torch.ones(rows, TOKENS, dtype=torch.long)], 1)
    patches = pixels.view(len(contexts), -1, pixels.shape[-1]).repeat_interleave(group, 0).flatten(0, 1)
    logits = model(
        input_ids=out, attention_mask=full_mask, pixel_values=patches,
        image_grid_thw=grids.repeat_interleave(group, 0), mm_token_type_ids=(out == processor.image_id).int(),
        logits_to_keep=TOKENS + 1,
    ).logits[:, :-1]  # fmt: skip
    logprobs = torch.log_softmax(logits.float(), -1).gather(2, out[:, -TOKENS:, None])[..., 0]
    advantages = torch.randn(rows, 1)
    ratio = torch.exp(logprobs - logprobs.detach())
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def build(words: list[str]) -> tuple[Policy, GRPO, Learner, GRPOConfig]:
    config = compose_run(["scale=tiny", *words])
    algorithm = config.algorithm
    assert isinstance(algorithm, GRPOConfig)
    policy = load_policy(config.model)
    policy.processor.eos_ids = frozenset()  # every completion runs to TOKENS
    collector = Collector(
        config.rollout.engine.build(policy.model, policy.processor),
        policy.processor,
        config.prompt.build(),
        config.rollout.build_kind(policy.processor),
    )
    method = GRPO(
        algorithm,
        sampler=Sampler(config.dataset.build(Split.TRAIN), 0),
        collector=collector,
        grader=Grader(config.reward.build()),
        advantage=algorithm.advantage.build(),
        sampling=config.rollout.sampling(),
        seed=0,
    )
    scorer = Scorer(temperature=1.0, banned_ids=policy.processor.banned_ids, pad_id=policy.processor.pad_id)
    plan = Plan(
        num_steps=10_000, lr=1e-6, num_iterations=1, mini_batches=1,
        normalisation=Normalisation.sequence_mean, constant_length=TOKENS,
    )  # fmt: skip
    objective = PolicyObjective(term=Clip(clip_low=0.2, clip_high=0.2), beta=0.0)
    learner = Learner(policy.model, scorer, objective, plan, algorithm.optim)
    return policy, method, learner, algorithm


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy, method, learner, algorithm = build([f"rollout.max_new_tokens={TOKENS}"])
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-6)
    clock = StageClock()
    pairs: list[tuple[float, float]] = []
    tokens = 0
    for number in range(options.pairs + 1):
        start = time.process_time()
        gathered = method.gather(number, clock)
        learner.step(gathered.experience)
        ours = time.process_time() - start
        tokens = gathered.tokens
        contexts = method.collector.contexts(method.sampler.next(algorithm.prompts_per_step))
        start = time.process_time()
        plain_step(policy, optimizer, contexts, algorithm.group_size)
        plain = time.process_time() - start
        if number:  # the first pair warms up
            pairs.append((ours, plain))
    ratios = sorted(ours / plain for ours, plain in pairs)
    result = {
        "completions": algorithm.prompts_per_step * algorithm.group_size,
        "tokens_per_completion": tokens / (algorithm.prompts_per_step * algorithm.group_size),
        "ours_cpu_s": round(statistics.median(o for o, _ in pairs), 4),
        "plain_cpu_s": round(statistics.median(p for _, p in pairs), 4),
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_low_high": [round(ratios[0], 3), round(ratios[-1], 3)],
        "pairs": len(pairs),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "torch": torch.__version__,
    }
    print(json.dumps(result, indent=1))
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
