"""From the command line to typed, checked runs, and from any user error to one line.

No torch here: `--help`, a misspelt option and a wrong value must answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.compose import compose_words
from groundrl.config.help import help_text
from groundrl.config.invocation import Invocation
from groundrl.config.locate import located
from groundrl.config.multirun import job_words, named_job
from groundrl.config.notices import notices
from groundrl.config.refusals import refusal
from groundrl.config.registry import load_all
from groundrl.config.unread import check_scale_words
from groundrl.config.words import check_words, is_multirun, parted, quoted, split
from groundrl.errors import GroundRLError
from groundrl.world import World

if TYPE_CHECKING:
    from groundrl.run_config import RunConfig

INTERRUPTED = 128
"""Exit codes from here on mean that a signal ended the run; a sweep stops then."""


class Launcher:
    """Runs the jobs of one command line, checking all of them before the first.

    job     runs one checked configuration and returns its exit code
    ready   raises UserError when a configuration cannot start on this machine (weights, device)
    """

    def __init__(
        self, job: Callable[[RunConfig, Invocation], int], ready: Callable[[RunConfig], None]
    ) -> None:
        self.job = job
        self.ready = ready
        self.jobs: list[list[str]] = []
        self.code = 0

    def start(self, main: Callable[..., None], argv: Sequence[str]) -> int:
        """The exit code of the command line `argv` (without the program): the worst of its jobs.

        `main` is the function that Hydra decorated; it must call `run`.
        """
        words = [word for word in argv if not word.startswith("-")]
        with notices():
            return guard(self._start, main, argv, words=words)

    def _start(self, main: Callable[..., None], argv: Sequence[str]) -> int:
        flags, words = split(argv)
        words = [quoted(word) for word in words]
        check_words(words)
        load_all()
        if "--help" in flags or "-h" in flags:
            print(help_text(words))
            return 0
        if is_multirun(flags):
            self._check_jobs(words)
        os.environ["HYDRA_FULL_ERROR"] = "1"  # its exceptions reach guard() instead of being printed
        program, given = sys.argv[:1], sys.argv
        sys.argv = [*program, *flags, *words]
        try:
            main()
        except SystemExit:
            if self.code < INTERRUPTED:
                raise
        finally:
            sys.argv = given
        return self.code

    def _check_jobs(self, words: Sequence[str]) -> None:
        """Compose and check every job of a sweep; a wrong one refuses the whole sweep."""
        self.jobs = job_words(words)
        for number, own in enumerate(self.jobs):
            with named_job(number, self.jobs):
                config, _ = typed(*composed(own), multirun=True)
                set_threads(config.threads)
                self.ready(config)

    def run(self, cfg: DictConfig) -> None:
        """One job, called by Hydra. Raises SystemExit only when a signal ended it."""
        code = guard(self._run, cfg)
        self.code = max(self.code, code)
        if code >= INTERRUPTED:
            raise SystemExit(code)

    def _run(self, cfg: DictConfig) -> int:
        if not self.jobs:
            return self.job(*freeze(cfg))
        number = int(HydraConfig.get().job.num)
        with named_job(number, self.jobs):
            print(f"\n== job {number + 1} of {len(self.jobs)}: {' '.join(self.jobs[number])} ==", flush=True)
            return self.job(*freeze(cfg))


def freeze(cfg: DictConfig) -> tuple[RunConfig, Invocation]:
    """Resolve, type and check the configuration of a running Hydra job, and set the process up for it.

    Raises ConfigError naming the full key of the setting that is wrong.
    """
    hydra = HydraConfig.get()
    multirun = str(hydra.mode).endswith("MULTIRUN")
    words: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)  # ${...} stays as it was written
    config, invocation = typed(cfg, words, multirun=multirun)
    set_threads(config.threads)
    return config, invocation


def typed(cfg: DictConfig, words: Sequence[str], *, multirun: bool) -> tuple[RunConfig, Invocation]:
    """The checked configuration of a composed job and how it was asked for."""
    config: RunConfig = located(cfg)
    resolved: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    preset = next((parted(word)[1] for word in words if parted(word)[0] == "experiment"), "null")
    invocation = Invocation(
        overrides=tuple(words),
        experiment=None if preset == "null" else preset,
        resolved=resolved,
        multirun=multirun,
    )
    check_scale_words(cfg, words)
    config.check(invocation)
    return config, invocation


def composed(words: Sequence[str]) -> tuple[DictConfig, tuple[str, ...]]:
    """The composition of one job's words, and those of them that are the job's own (not Hydra's)."""
    own = tuple(word for word in words if not parted(word)[0].startswith(("hydra.", "hydra/")))
    return compose_words(own), own


def set_threads(threads: int | None) -> None:
    """Fix the threads of the numerical libraries; they read this when they are first imported."""
    if threads is None:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def guard(call: Callable[..., int | None], *args: Any, words: Sequence[str] = ()) -> int:
    """The exit code of `call(*args)`; a user's error becomes one line on stderr and 2, without a traceback.

    Anything else keeps its traceback. `words`: the settings given, for naming what could have been meant.
    """
    try:
        return call(*args) or 0
    except GroundRLError as error:
        return _say(str(error), error.exit_code)
    except (HydraException, OmegaConfBaseException) as error:
        return _say(str(refusal(error, words)), 2)


def _say(message: str, code: int) -> int:
    process = "" if World.of().alone else f"process {World.of().rank}: "
    print(f"error: {process}{' '.join(message.split())}", file=sys.stderr)
    return code
