"""Scale values that a run does not take up."""

from __future__ import annotations

import pytest

from groundrl.config.compose import compose_words
from groundrl.config.unread import check_scale_words, scale_references
from groundrl.errors import ConfigError


def test_references_are_those_of_the_chosen_task_and_algorithm() -> None:
    read = scale_references(compose_words(["reward=ap", "algorithm=sft"]))
    assert "scale.ovd.sft_lr" in read
    assert "scale.precision" in read
    assert not any(name.startswith("scale.rec.") for name in read)
    assert "scale.ovd.lr" not in read


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["scale.ovd.lr=1e-3"], "scale.ovd.lr"),
        (["scale.rec.sft_lr=1e-3"], "scale.rec.sft_lr"),
        (["algorithm.lr=1e-4", "scale.rec.lr=1e-3"], "scale.rec.lr"),
        (["threads=2", "scale.threads=1"], "scale.threads"),
    ],
)
def test_a_word_that_nothing_takes_up_is_refused(words: list[str], key: str) -> None:
    with pytest.raises(ConfigError, match="would be ignored") as error:
        check_scale_words(compose_words(words), words)
    assert error.value.key == key


def test_words_that_are_taken_up_pass_even_at_their_default() -> None:
    words = ["scale.rec.group_size=8", "scale.eval_every=40", "scale.rec={temperature: 0.5}"]
    cfg = compose_words(words)
    check_scale_words(cfg, words)
    assert cfg.rollout.temperature == 0.5
