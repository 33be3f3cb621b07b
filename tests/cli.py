"""The command line in this process: what `python train.py WORDS` does, with the job itself replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import train

from groundrl.config.entry import Launcher

if TYPE_CHECKING:
    from groundrl.config.invocation import Invocation
    from groundrl.run_config import RunConfig

Job = Callable[["RunConfig", "Invocation"], int]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Exit code, what was printed, and the jobs that would have run."""

    code: int
    out: str
    err: str
    jobs: list[tuple[RunConfig, Invocation]] = field(default_factory=list)

    @property
    def error(self) -> str:
        """The one line that a refused command line prints. Fails when it is anything else."""
        assert self.code == 2, (self.code, self.err)
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("error: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").removesuffix("\n")


@dataclass(slots=True, kw_only=True)
class Cli:
    """Calls the entry point; `job` and `ready` are what train.py would hand to the launcher."""

    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def __call__(
        self, *words: str, job: Job | None = None, ready: Callable[[RunConfig], None] | None = None
    ) -> Outcome:
        jobs: list[tuple[RunConfig, Invocation]] = []

        def recorded(config: RunConfig, invocation: Invocation) -> int:
            jobs.append((config, invocation))
            return job(config, invocation) if job else 0

        launcher = Launcher(recorded, ready or (lambda config: None))
        self.patch.setattr(train, "LAUNCHER", launcher)
        self.patch.setattr(sys, "argv", ["train.py"])
        self.capture.readouterr()
        code = launcher.start(train.main, words)
        printed = self.capture.readouterr()
        return Outcome(code=code, out=printed.out, err=printed.err, jobs=jobs)


def make_cli(patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Cli:
    """A `Cli` whose changes to the environment are undone after the test."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY"):
        patch.setenv(name, "1" if name != "OMP_WAIT_POLICY" else "PASSIVE")
    patch.setenv("HYDRA_FULL_ERROR", "1")
    return Cli(patch=patch, capture=capture)
