r"""One number in an answer.

Policy: the text must hold exactly one number; words and units may stand around it. Read are integers,
decimals, a touching sign, thousands in groups of three (1,234.5), a fraction of two plain numbers (3/4 or
\frac{3}{4}), an exponent (1.5e3 or 1.5 \times 10^{3}), a currency sign before and a percent sign after it.
"12%" has value 12 and the flag `percent`. A digit inside or after a word (cm2, cm^2) belongs to the word.
Not read: calculations, powers, roots, multiples of pi, mixed numbers, decimal commas, number words, numbers
that are not finite or are written with more than 64 characters.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from groundrl.parsing.markup import unwrap

MAX_NUMBER_CHARS = 64
_FRACTION = re.compile(
    r"(?<![0-9A-Za-z.}])\\[dt]?frac\{(-?[0-9.]{1,32})\}\{([0-9.]{1,32})\}(?![0-9A-Za-z.{^])"
)
_DECIMAL = r"(?:(?:[1-9][0-9]{0,2}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]*+)?|\.[0-9]++)"
_TOKEN = re.compile(
    rf"""
    (?P<sign>[-+]?)[$€£¥₹]?
    (?P<number>{_DECIMAL}(?:[eE][-+]?[0-9]++)?)
    (?:\s*+(?:x|×|\*|\\times|\\cdot)\s*+10\s*+\^\s*+\{{?\s*+(?P<power>[-+]?[0-9]++)\s*+\}}?)?
    (?:\s*+/\s*+(?P<divisor>{_DECIMAL}))?
    (?P<degree>\s*+(?:\^\s*+(?:\\circ|\{{\\circ\}})|°))?
    (?P<percent>\s*+(?:\\?%|percent\b))?
    | (?P<command>\\(?:text|textbf|mathrm|mathbf|left|right|approx|quad|circ)(?![A-Za-z])|\\[^A-Za-z])
    | (?P<operator>[\\+*/^=<>√π∞±×÷]|\d|[²³¹⁰⁴⁵⁶⁷⁸⁹½¼¾])
    | (?P<word>[^\W\d]\w*+(?:\^\{{?-?[0-9]{{1,3}}\}}?)?-?)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """`value` is the shortest decimal form of the number; `percent`: a percent sign follows it."""

    value: str
    percent: bool


def _plain(text: str) -> float:
    """nan for a number too long to mean anything."""
    return float(text.replace(",", "")) if len(text) <= MAX_NUMBER_CHARS else math.nan


def shortest(value: float) -> str:
    """Shortest decimal form that reads back as `value` (finite); integers without a point, no minus zero."""
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value)


def _value(match: re.Match[str]) -> float:
    number = match["number"]
    if match["power"]:
        number = f"{number}e{match['power']}" if "e" not in number.lower() else "nan"
    value = _plain(number)
    if match["divisor"]:
        divisor = _plain(match["divisor"])
        value = value / divisor if divisor else math.nan
    return -value if match["sign"] == "-" else value


def _tolerated(operator: str, text: str, match: re.Match[str]) -> bool:
    """Whether a sign leaves the number what it is: an equals sign before it, a slash between units."""
    before = text[: match.start()][-1:]
    if operator == "/":
        return before.isalpha() and text[match.end() : match.end() + 1].isalpha()
    return operator == "="


def read_number(text: str) -> Number | None:
    """The one number of the text; None where there is none, or more than one, or no finite one.

    Never raises; time is linear in the text.
    """
    inside = unwrap(text)
    if inside is None:
        return None
    plain = _FRACTION.sub(r"\1/\2", inside.replace("−", "-").replace("{,}", ",").replace("\\$", "$"))
    found: re.Match[str] | None = None
    for match in _TOKEN.finditer(plain):
        kind = match.lastgroup
        if kind == "operator":
            if not _tolerated(match["operator"], plain, match):
                return None
        elif match["number"]:
            if found is not None:
                return None
            found = match
    if found is None:
        return None
    value = _value(found)
    if not math.isfinite(value):
        return None
    return Number(value=shortest(value), percent=found["percent"] is not None)
