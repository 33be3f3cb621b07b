"""Grades batches of rollouts, in this process or in a pool of workers with a time limit.

A pool pays for slow terms (symbolic mathematics, a user's own function). Order is kept, and what a worker
returns equals what `Rubric.grade` gives here. A rollout whose grading takes too long, or kills its worker,
has all terms `Missing` with that as the reason; the others keep their value.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from pebble import ProcessExpired, ProcessPool

from groundrl.parsing.answer import Answer
from groundrl.rewards.graded import Graded
from groundrl.rewards.grading import GradingConfig
from groundrl.rewards.rubric import Pair, Rubric, Verdicts
from groundrl.types import Missing, RewardBreakdown, Rollout, Sample

Job = list[tuple[Rollout, Sample, Verdicts]]
Judged = tuple[Answer, RewardBreakdown]
CHUNK = 4


class Grader:
    """Owns the pool, if there is one; `close` ends it."""

    def __init__(self, rubric: Rubric, config: GradingConfig | None = None) -> None:
        self.rubric = rubric
        self.config = config or GradingConfig()
        self._pool: ProcessPool | None = None

    def grade(
        self,
        pairs: Sequence[Pair],
        *,
        progress: float = 0.0,
        verdicts: Sequence[Verdicts] | None = None,
    ) -> list[Graded]:
        """Grade each (rollout, sample), in order; `verdicts` holds one entry a pair."""
        if self.config.workers == 0:
            return self.rubric.grade_all(pairs, progress=progress, verdicts=verdicts)
        given = verdicts if verdicts is not None else [None] * len(pairs)
        jobs = [(rollout, sample, own) for (rollout, sample), own in zip(pairs, given, strict=True)]
        chunks = [jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK)]
        running = [self._schedule(chunk, progress) for chunk in chunks]
        graded: list[Graded] = []
        for chunk, future in zip(chunks, running, strict=True):
            for (rollout, sample, _), (answer, breakdown) in zip(
                chunk, self._result(chunk, future, progress), strict=True
            ):
                graded.append(Graded(sample=sample, rollout=rollout, answer=answer, breakdown=breakdown))
        return graded

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None

    def _schedule(self, jobs: Job, progress: float) -> Future[list[Judged]]:
        pool = self._pool
        if pool is None:
            pool = self._pool = ProcessPool(
                max_workers=self.config.workers,
                context=multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(self.rubric,),
            )
        light = [(_without_patches(rollout), sample, own) for rollout, sample, own in jobs]
        # the clock of a task starts when a worker, its imports done, takes it up
        return pool.schedule(_grade, args=(light, progress), timeout=self.config.timeout_s * len(jobs))

    def _result(self, jobs: Job, future: Future[list[Judged]], progress: float) -> list[Judged]:
        """What the workers made of `jobs`; a chunk that failed is tried again one by one."""
        try:
            return future.result()
        except TimeoutError:
            reason = f"grading took more than {self.config.timeout_s:g} s (reward.grading.timeout_s)"
        except ProcessExpired as error:
            reason = f"the grading process died (exit code {error.exitcode})"
        if len(jobs) > 1:
            return [
                one for job in jobs for one in self._result([job], self._schedule([job], progress), progress)
            ]
        ((rollout, sample, _),) = jobs
        return [self._missing(rollout, sample, reason)]

    def _missing(self, rollout: Rollout, sample: Sample, reason: str) -> Judged:
        answer = self.rubric.parse(rollout, sample)
        names = self.rubric.covering(sample.task)
        breakdown = RewardBreakdown(
            task=sample.task,
            terms={name: Missing(reason) for name in names},
            weights={name: self.rubric.weights[name] for name in names},
            total=None,
            parse_status=answer.status.value,
        )
        return answer, breakdown


def _without_patches(rollout: Rollout) -> Rollout:
    """Rewards read sizes from `frames`; the image patches would make every message megabytes."""
    return replace(rollout, segments=[replace(segment, images=()) for segment in rollout.segments])


_rubric: list[Rubric] = []


def _start(rubric: Rubric) -> None:
    """In a worker: an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _rubric[:] = [rubric]


def _grade(jobs: Job, progress: float) -> list[Judged]:
    graded = _rubric[0].grade_all(
        [(rollout, sample) for rollout, sample, _ in jobs],
        progress=progress,
        verdicts=[own for _, _, own in jobs],
    )
    return [(one.answer, one.breakdown) for one in graded]
