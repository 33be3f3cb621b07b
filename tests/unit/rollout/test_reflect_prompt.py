"""The baseline of self-verification: a request to check the answer, wherever a question is asked."""

from __future__ import annotations

import pytest

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError
from groundrl.rollout.single_turn import SingleTurn
from groundrl.types import ImagePart, Message, Sample, Task, TextPart, Truth

REQUEST = "Look twice."


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def test_the_request_ends_the_question() -> None:
    config = compose_run(["rollout=reflect_prompt", f"rollout.reflection={REQUEST}"])
    assert isinstance(config.rollout.build_kind(None), SingleTurn)  # pyright: ignore[reportArgumentType]
    prompt = config.prompt.build(config.rollout.instruction())
    plain = compose_run([]).prompt.build(compose_run([]).rollout.instruction())
    sample = Sample(id="a", task=Task.rec, images=(), truth=Truth(), question="red circle")
    (asked,), (usual,) = prompt.messages(sample), plain.messages(sample)
    assert text_of(asked) == f"{text_of(usual)} {REQUEST}"


def test_a_conversation_of_the_data_gets_it_in_its_last_question() -> None:
    talk = (
        Message(role="user", parts=(ImagePart(0), TextPart("one?"))),
        Message(role="assistant", parts=(TextPart("yes"),)),
        Message(role="user", parts=(TextPart("two?"),)),
    )
    sample = Sample(id="a", task=Task.text, images=(), truth=Truth(), messages=talk)
    words = ["rollout=reflect_prompt", f"rollout.reflection={REQUEST}", "prompt.conversations=as_is"]
    config = compose_run(words)
    messages = config.prompt.build(config.rollout.instruction()).messages(sample)
    assert messages[:2] == talk[:2]
    assert text_of(messages[2]) == f"two? {REQUEST}"


def test_an_empty_request_is_refused() -> None:
    with pytest.raises(ConfigError, match="reflection: must not be empty"):
        compose_run(["rollout=reflect_prompt", "rollout.reflection=' '"])
