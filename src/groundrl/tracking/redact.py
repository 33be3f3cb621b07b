"""Keeps keys and passwords out of whatever a run stores or uploads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "<hidden>"

_SECRET_KEY = re.compile(
    r"(^|[_.-])(api_?key|access_?key|private_?key|(access|auth|api|hf|hub|bearer|secret)_?token|token|"
    r"secret(_?key)?|password|passwd|credentials?)$",
    re.IGNORECASE,
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_MIN_SECRET = 8
_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?P<key>[A-Za-z_][\w.-]*)(?P<sign>["']?[ \t]*[:=][ \t]*)"""
    r"""(?P<value>"[^"\n]+"|'[^'\n]+'|[^\s"'()\[\]{},;#]{8,}(?=[ \t\r]*(?:[,;#].*)?$))""",
    re.MULTILINE,
)


def redact(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """A copy of `value` (nested dicts and lists) without secrets.

    Hidden are: text under a key that names a secret (`api_key`, `hf_token`, `password`), the values of such
    environment variables wherever they occur in a text, and the login part of a URL.
    """
    variables = os.environ if environ is None else environ
    named = [text for key, text in variables.items() if _SECRET_KEY.search(key)]
    secrets = [text for text in named if len(text) >= _MIN_SECRET]
    return _redact(value, sorted(secrets, key=len, reverse=True))


def redact_source(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, int]:
    """Source text (a patch) without secrets, and the number of values hidden.

    Beside what `redact` hides in a text: in each line a literal after a name that names a secret
    (`api_key: abc`, `HF_TOKEN = "abc"`), in quotes, or bare and at least 8 characters long.
    """
    cleaned: str = redact(_ASSIGNED.sub(_hide, text), environ)
    return cleaned, cleaned.count(HIDDEN) - text.count(HIDDEN)


def _hide(found: re.Match[str]) -> str:
    if not _SECRET_KEY.search(found["key"]):
        return found[0]
    quote = found["value"][0] if found["value"][0] in "\"'" else ""
    return f"{found['key']}{found['sign']}{quote}{HIDDEN}{quote}"


def _redact(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _entry(str(key), item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, secrets) for item in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return _URL_LOGIN.sub(HIDDEN, value)
    return value


def _entry(key: str, item: Any, secrets: list[str]) -> Any:
    if isinstance(item, str) and item and _SECRET_KEY.search(key):
        return HIDDEN
    return _redact(item, secrets)
