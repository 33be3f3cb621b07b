"""Log-probs, entropies and their gradients at a real vocabulary: chunked, against the whole logit matrix.

Sides, all from hidden states [tokens, hidden] and a trainable head to log-probs and both gradients:
  chunked   models/chunked_logprobs.py, entropies included
  naive     hidden @ W.T, log_softmax, gather; no entropies
  entropy   naive and the entropies, as the metrics need them

Every side runs in turn in one process with one thread, its order turned round each time; times are CPU
seconds, memory is the growth of the peak resident set (inputs not counted, the gradient of the head counted).
Figures are medians, with the 2.5th and 97.5th percentile of the median under resampling.

    python benchmarks/loss_memory.py [--tokens 3072] [--vocabulary 151936] [--pairs 7] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from groundrl.models.chunked_logprobs import token_logprobs
from peers.measure import interval, reset_peak, resident

RESULT = Path(__file__).parent / "results" / "loss_memory.json"
BANNED = (3, 5, 7)
TEMPERATURE = 0.9


def naive(head: Any, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
    return _full(head, hidden).gather(1, targets[:, None])[:, 0], None


def with_entropy(head: Any, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
    full = _full(head, hidden)
    with torch.no_grad():
        known = full.detach()
        entropy = -(known.exp() * known.masked_fill(known == float("-inf"), 0.0)).sum(-1)
    return full.gather(1, targets[:, None])[:, 0], entropy


def chunked(head: Any, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
    return token_logprobs(head, hidden, targets, temperature=TEMPERATURE, banned_ids=BANNED)


def _full(head: Any, hidden: Tensor) -> Tensor:
    logits = head(hidden).float().index_fill(1, torch.tensor(BANNED), float("-inf")) / TEMPERATURE
    return torch.log_softmax(logits, -1)


SIDES: dict[str, Callable[[Any, Tensor, Tensor], tuple[Tensor, Tensor | None]]] = {
    "chunked": chunked,
    "naive": naive,
    "entropy": with_entropy,
}


def once(
    name: str, head: Any, hidden: Tensor, targets: Tensor, weights: Tensor
) -> tuple[float, float, float]:
    """(CPU seconds, MiB, checksum of the gradients)."""
    head.weight.grad, hidden.grad = None, None
    before = reset_peak()
    start = time.process_time()
    logprobs, _ = SIDES[name](head, hidden, targets)
    (logprobs * weights).sum().backward()
    taken = time.process_time() - start
    grown = resident("VmHWM") - before
    gradients: list[Any] = [head.weight.grad, hidden.grad]
    return taken, grown, sum(float(gradient.abs().sum()) for gradient in gradients)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=3072)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    head = torch.nn.Linear(options.hidden, options.vocabulary, bias=False)
    hidden = torch.randn(options.tokens, options.hidden, requires_grad=True)
    targets = torch.randint(8, options.vocabulary, (options.tokens,))
    weights = torch.randn(options.tokens)
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    memory: dict[str, list[float]] = {name: [] for name in SIDES}
    sums: dict[str, float] = {}
    for number in range(options.pairs):
        for name in SIDES if number % 2 else reversed(SIDES):
            taken, grown, sums[name] = once(name, head, hidden, targets, weights)
            seconds[name].append(taken)
            memory[name].append(grown)
    for name, value in sums.items():
        assert abs(value - sums["naive"]) < 1e-3 * sums["naive"], (name, sums)
    table: dict[str, Any] = {}
    print("| side | CPU s | MiB | time, chunked to it | interval | memory, it to chunked |")
    print("| --- | --- | --- | --- | --- | --- |")
    least = statistics.median(memory["chunked"])
    for name in SIDES:
        ratios = [c / s for c, s in zip(seconds["chunked"], seconds[name], strict=True)]
        table[name] = {
            "cpu_s": round(statistics.median(seconds[name]), 3),
            "mib": round(statistics.median(memory[name])),
            "time_ratio": round(statistics.median(ratios), 3),
            "time_ratio_interval": interval(ratios),
            "memory_ratio": round(statistics.median(memory[name]) / least, 1),
        }
        print(f"| {name} | " + " | ".join(str(value) for value in table[name].values()) + " |")
    result = {
        "sides": table,
        "tokens": options.tokens,
        "hidden": options.hidden,
        "vocabulary": options.vocabulary,
        "logit_matrix_mib": round(options.tokens * options.vocabulary * 4 / 2**20),
        "pairs": options.pairs,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "torch": torch.__version__,
    }
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
