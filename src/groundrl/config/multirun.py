"""The jobs of `-m`: the same words, in the same order, as Hydra's own sweeper makes of them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.compose import composing
from groundrl.config.refusals import refusal
from groundrl.errors import ConfigError, GroundRLError


def job_words(words: Sequence[str]) -> list[list[str]]:
    """One list of words per job. Raises ConfigError on a sweep over a range without steps, and Hydra's
    OverrideParseException on a word that cannot be read."""
    with composing():
        loader = GlobalHydra.instance().config_loader()
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(list(words))
    choices: list[list[str]] = []
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            choices.append([_word(key, override.get_value_element_as_str(), deletes=override.is_delete())])
        elif override.is_discrete_sweep():
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            todo = "list the values, or use range(START,STOP,STEP)"
            raise ConfigError(
                key, "only listed values can be swept", got=override.get_value_string(), todo=todo
            )
    return [list(job) for job in itertools.product(*choices)]


def _word(key: str, value: str, *, deletes: bool) -> str:
    return key if deletes and not value else f"{key}={value}"


@contextlib.contextmanager
def named_job(number: int, jobs: Sequence[Sequence[str]]) -> Iterator[None]:
    """Puts the job's number and words before any user error that it raises; its exit code stays."""
    try:
        yield
    except GroundRLError as error:
        raise _named(error, number, jobs) from None
    except (HydraException, OmegaConfBaseException) as error:
        raise _named(refusal(error, jobs[number]), number, jobs) from None


def _named(error: GroundRLError, number: int, jobs: Sequence[Sequence[str]]) -> GroundRLError:
    named = GroundRLError(f"job {number + 1} of {len(jobs)} ({' '.join(jobs[number])}): {error}")
    named.exit_code = error.exit_code
    return named
