"""Jobs of a sweep, and how one of them is named in an error."""

from __future__ import annotations

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from groundrl.config.compose import compose_words, composing
from groundrl.config.multirun import job_words, named_job
from groundrl.errors import ConfigError, GroundRLError, NonFiniteError

SWEEPS = [
    ["reward=ap50,ap,odlength", "seed=0,1,2"],
    ["seed=range(0,6,2)", "algorithm.lr=choice(1e-4,3e-4)", "paths.root=/x"],
    ["reward=glob(ap*)", "~reward.terms.format", "+reward/term@reward.terms.x=iou"],
    ["dataset.objects=[1,2],[2,3]", "prompt.suffix='a, b'", "resume=null"],
    ["seed=3"],
]


@pytest.mark.parametrize("words", SWEEPS, ids=lambda words: words[0])
def test_jobs_are_those_that_hydra_will_start(words: list[str]) -> None:
    with composing():
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        (theirs,) = BasicSweeper.split_arguments(parser.parse_overrides(words), None)
    assert [[word.removesuffix("=") for word in job] for job in theirs] == job_words(words)


def test_the_last_word_varies_fastest() -> None:
    assert job_words(["a=x,y", "b=1,2"]) == [["a=x", "b=1"], ["a=x", "b=2"], ["a=y", "b=1"], ["a=y", "b=2"]]


def test_what_cannot_be_listed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.lr: only listed values can be swept"):
        job_words(["algorithm.lr=interval(0,1)"])
    with pytest.raises(OverrideParseException):
        job_words(["seed=[1"])


def test_an_error_names_its_job_and_keeps_its_exit_code() -> None:
    jobs = [["seed=0"], ["seed=1", "reward=ap"]]
    with pytest.raises(GroundRLError) as error, named_job(1, jobs):
        raise NonFiniteError("loss nan")
    assert str(error.value) == "job 2 of 2 (seed=1 reward=ap): loss nan"
    assert error.value.exit_code == 1
    with pytest.raises(GroundRLError) as error, named_job(0, jobs):
        raise ConfigError("seed", "no")
    assert (str(error.value), error.value.exit_code) == ("job 1 of 2 (seed=0): seed: no", 2)
    with pytest.raises(GroundRLError) as error, named_job(0, jobs):
        compose_words(["reward=apx"])
    assert str(error.value).startswith("job 1 of 2 (seed=0): reward: no such option, got 'apx'")
    with pytest.raises(ZeroDivisionError), named_job(0, jobs):
        raise ZeroDivisionError


def test_composing_leaves_a_running_hydra_alone() -> None:
    with composing():
        outer = GlobalHydra.instance().hydra
        assert compose_words(["seed=3"]).seed == 3
        assert GlobalHydra.instance().hydra is outer
    assert not GlobalHydra.instance().is_initialized()
