"""Secrets stay out of stored and uploaded configs; other settings come through untouched."""

from __future__ import annotations

import pytest

from groundrl.tracking.redact import redact


@pytest.mark.parametrize(
    "key",
    ["api_key", "apikey", "WANDB_API_KEY", "hf_token", "token", "auth_token", "password", "db_password",
     "secret", "client_secret", "aws_secret_key", "credentials", "private_key"],
)  # fmt: skip
def test_text_under_a_telling_key_is_hidden(key: str) -> None:
    assert redact({"a": [{key: "value"}]}, {}) == {"a": [{key: "<hidden>"}]}


def test_other_settings_stay() -> None:
    config = {
        "max_new_tokens": 128,
        "tokens": "abc",
        "eos_token_id": 7,
        "token": 3,
        "api_key": None,
        "password": "",
        "keys": ["a"],
        "tokenizer": "qwen",
        "monkey": "x",
    }
    assert redact(config, {}) == config


def test_values_of_secret_variables_are_hidden_anywhere() -> None:
    environ = {"HF_TOKEN": "hf_0123456789", "HOME": "/home/someone", "X_API_KEY": "short"}
    config = {"note": "use hf_0123456789 please", "home": "/home/someone", "word": "short"}
    assert redact(config, environ) == {
        "note": "use <hidden> please",
        "home": "/home/someone",
        "word": "short",
    }


def test_a_login_in_a_url_is_hidden() -> None:
    assert redact(["https://me:pass@host/x", "https://host/a:b@c"], {}) == [
        "https://<hidden>@host/x",
        "https://host/a:b@c",
    ]


def test_the_argument_is_not_changed() -> None:
    config = {"a": {"token": "t"}}
    redact(config, {})
    assert config == {"a": {"token": "t"}}
