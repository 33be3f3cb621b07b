"""Secrets stay out of stored and uploaded configs; other settings come through untouched."""

from __future__ import annotations

import pytest

from groundrl.tracking.redact import redact, redact_source


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


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('+api_key: "abc"', '+api_key: "<hidden>"'),
        ("+hf_token = 'abc'  # mine", "+hf_token = '<hidden>'  # mine"),
        ("-  password: opensesame", "-  password: <hidden>"),
        ("+WANDB_API_KEY=0123456789abcdef", "+WANDB_API_KEY=<hidden>"),
        ('+{"client_secret": "x", "a": "y"}', '+{"client_secret": "<hidden>", "a": "y"}'),
        ("+url = https://me:pass@host/x", "+url = https://<hidden>@host/x"),
        ("+print(hf_0123456789)", "+print(<hidden>)"),
        ("+password: opensesame\r", "+password: <hidden>\r"),
    ],
)
def test_secrets_in_source_are_hidden(line: str, kept: str) -> None:
    text = f"@@ -1 +1 @@\n{line}\n context"
    assert redact_source(text, {"HF_TOKEN": "hf_0123456789"}) == (f"@@ -1 +1 @@\n{kept}\n context", 1)


@pytest.mark.parametrize(
    "line",
    [
        "+token = tokenizer.decode(ids)",
        "+max_new_tokens: 12345678",
        "+    token: int = 5",
        "+api_key: null",
        "+password:",
        "+secretly = 'abc'",
        "+def f(token, key): pass",
    ],
)
def test_other_source_stays(line: str) -> None:
    assert redact_source(f"{line}\n+nextlines1\n", {}) == (f"{line}\n+nextlines1\n", 0)


def test_what_is_hidden_already_is_not_counted_again() -> None:
    assert redact_source("+note: <hidden>\n+token: 'abc'", {}) == ("+note: <hidden>\n+token: '<hidden>'", 1)
