"""What evaluates a run's policy: its benchmarks, the loop of verification, its reference checkpoints."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from groundrl.data.base import SampleSource
from groundrl.errors import ConfigError
from groundrl.evaluation.benchmarks import Benchmark, shared_images
from groundrl.evaluation.suite import Judge, Suite, as_json
from groundrl.models.load import Policy, load_policy
from groundrl.rewards.grader import Grader
from groundrl.rollout.collect import Collector
from groundrl.rollout.self_verify import SelfVerify
from groundrl.run_config import RunConfig
from groundrl.training.measure import BenchmarkSuite
from groundrl.training.parts import Parts
from groundrl.training.truth import check_samples
from groundrl.world import World

logger = logging.getLogger(__name__)

CHECKED = 4
"""Samples of a benchmark, or of a run without training, that are looked at before it starts."""


def benchmark_suite(
    config: RunConfig,
    benchmark: Benchmark,
    collector: Collector,
    grader: Grader,
    train: SampleSource,
    policy: Policy,
) -> BenchmarkSuite:
    """What evaluates a benchmark, after the checks that a data set gets: prompt, truth, images trained on."""
    asking = collector.asking(prompt=benchmark.prompt.build(config.rollout.instruction()))
    source = benchmark.source
    samples = [source.sample(index) for index in range(min(CHECKED, source.size or CHECKED))]
    check_samples(samples, asking, grader.rubric, policy.family.coordinate_space)
    judge = Judge(config.eval, grader, benchmark.config.measure)
    sampling = replace(config.rollout.sampling(), max_new_tokens=benchmark.config.max_new_tokens)
    shared = shared_images(train, source) if config.algorithm.training_steps() else None
    report_shared(f"benchmark {benchmark.name}", shared)
    facts: dict[str, Any] = {
        "fingerprint": source.fingerprint(),
        "prompt": f"{'own' if benchmark.own_prompt else 'run'}, {benchmark.prompt.provenance} wording",
        "shared_images": "unknown" if shared is None else {"shared": shared[0], "of": shared[1]},
    }
    greedy_only = replace(config.eval, sampled_k=0)
    verifying = verifying_collector(config, asking)
    suite = Suite(greedy_only, source, asking, judge, sampling, world=World.of(), verifying=verifying)
    return BenchmarkSuite(benchmark=benchmark, suite=suite, facts=facts)


def verifying_collector(config: RunConfig, collector: Collector) -> Collector | None:
    """The collector with the loop in which evaluation verifies answers, if it does. Raises ConfigError."""
    loop = config.loop()
    if loop is None:
        return None
    try:
        kind = SelfVerify(loop, config.rollout, collector.processor)
    except ConfigError as error:
        raise error.at("rollout" if config.eval.verify is None else "eval") from None
    return collector.asking(kind=kind)


def report_shared(name: str, shared: tuple[int, int, list[str]] | None) -> None:
    """Warn when images that are evaluated on are trained on too (`shared_images`)."""
    if shared is not None and shared[0]:
        text = "%d of the %d images of %s are in the training data too (%s): its numbers are no measure of it"
        logger.warning(text, shared[0], shared[1], name, ", ".join(shared[2]))


def evaluate_references(parts: Parts) -> dict[str, Any]:
    """Metrics of the model's named reference checkpoints on the same samples, seeds and rubric."""
    out: dict[str, Any] = {}
    config = parts.config
    for name, path in config.model.references.items():
        other = load_policy(replace(config.model, path=path, init_from=None))
        engine = config.rollout.engine.build(other.model, other.processor)
        own = parts.suite
        kind = config.rollout.build_eval_kind(other.processor)
        collector = Collector(
            engine, other.processor, own.collector.prompt, kind, limit=config.rollout.engine.context_limit()
        )
        suite = Suite(
            config.eval,
            own.source,
            collector,
            own.judge,
            own.sampling,
            world=own.world,
            verifying=verifying_collector(config, collector),
        )
        out[name] = as_json(suite.evaluate(config.eval.samples, progress=1.0).metrics)
        engine.close()
    return out
