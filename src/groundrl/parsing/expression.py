r"""Which texts may be handed to a computer algebra system as LaTeX.

Algebra on untrusted text can run for ever: 9^{9^{9^{9}}} is eleven characters of work without end, and one
huge power is a single operation that no timer interrupts. Hence a whitelist: known commands, no words, no
factorials, sums or integrals, bounded length, nesting, numbers and powers. What is refused can still be
compared as text.
"""

from __future__ import annotations

import re

from groundrl.parsing.markup import unwrap

MAX_CHARS = 200
MAX_DEPTH = 6
MAX_LETTERS = 4
MAX_NUMBER_DIGITS = 15
MAX_POWER = 1000
MAX_SYMBOL_POWER = 100
MAX_GROUP_POWER = 12
MAX_CALLS = 8
MAX_CURVES = 3

_READABLE = str.maketrans(
    {"−": "-", "×": "\\times ", "·": "\\cdot ", "÷": "\\div ", "π": "\\pi ", "°": "^{\\circ}", "≤": "\\leq "}
    | {"≥": "\\geq ", "∞": "\\infty ", "\n": " ", "\t": " ", "$": ""}
)
_UNIT = re.compile(r"\\(?:text|mathrm|textrm)\{[^{}\\]*\}(?:\^\{?[0-9]\}?)?")
_SPACING = re.compile(r"\\[,;:! ]|\\quad(?![A-Za-z])|\\displaystyle(?![A-Za-z])")
_BARE_NAME = re.compile(r"(?<![\\A-Za-z])(?=(?:sqrt|sin|cos|tan|log|ln|pi)(?![A-Za-z]))")
_SQRT_CALL = re.compile(r"\\sqrt *(?=\()")
_CURVES = frozenset({"sin", "cos", "tan", "log", "ln"})
_CALLS = frozenset({"frac", "dfrac", "tfrac", "sqrt"}) | _CURVES
_IN_POWER = frozenset({"frac", "dfrac", "tfrac", "pi", "cdot", "circ"})
_SIGNS = frozenset({"times", "div", "pm", "approx", "leq", "geq", "le", "ge", "cup", "cap", "in", "{", "}"})
_NAMES = frozenset({"left", "right", "infty", "emptyset", "alpha", "beta", "theta"})
_COMMANDS = _CALLS | _IN_POWER | _SIGNS | _NAMES
_ALLOWED = re.compile(r"[A-Za-z0-9 +\-*/^=<>()\[\]{}|,.;_\\]*")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_TOKEN = re.compile(r" *(-?(?:[0-9.,]+|[A-Za-z]|\\circ|\\pi))")
_LOGARITHM = re.compile(r"\\(?:log|ln)(?![A-Za-z])")
_CURVE = re.compile(r"\\(?:sin|cos|tan)(?![A-Za-z])")
_RELATION = re.compile(r"[=<>]|\\(?:leq?|geq?)(?![A-Za-z])")
_VARIABLE_POWER = re.compile(r"\^ *(?:-? *[A-Za-z]|[{(][^})]*[A-Za-z])")
_FRACTION = re.compile(r" *-? *(?:\\[dt]?frac\{)?([0-9]{1,3}) *(?:(?:/|\}\{) *[0-9]{1,3}\}?)? *")


def _deepest(text: str) -> int:
    """Largest nesting of brackets; beyond what is allowed where they do not close."""
    depth = deepest = 0
    for char in text:
        depth += (char in "{([") - (char in "})]")
        deepest = max(deepest, depth)
    return deepest if depth == 0 else MAX_DEPTH + 1


def _group(text: str, start: int) -> tuple[str, int] | None:
    """The inside of the bracket that opens at `start`, and the index behind it."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in "{([") - (text[index] in "})]")
        if depth == 0:
            return text[start + 1 : index], index + 1
    return None


def _argument(text: str, start: int) -> tuple[str, int] | None:
    """The exponent or root index at `start`, a group or one signed token, and the index behind it."""
    while text[start : start + 1] == " ":
        start += 1
    if text[start : start + 1] in ("{", "(", "["):
        return _group(text, start)
    token = _TOKEN.match(text, start)
    return (token[1], token.end()) if token else None


def _bound(exponent: str) -> int | None:
    """An upper bound of the exponent's size, None where it is not simple enough to have one."""
    if "^" in exponent or not _IN_POWER.issuperset(_COMMAND.findall(exponent)):
        return None
    if simple := _FRACTION.fullmatch(exponent):
        return max(1, int(simple[1]))
    digits = len(re.findall("[0-9]", exponent))
    return 10**digits if digits <= 3 else None


def _powers_are_small(text: str) -> bool:
    """Whether all powers together, as if each group were raised to the next, stay small."""
    single = grouped = 1
    for match in re.finditer(r"\^|\\sqrt *(?=\[)", text):
        argument = _argument(text, match.end())
        size = _bound(argument[0]) if argument else None
        if argument is None or size is None or text[argument[1] :].lstrip().startswith("^"):
            return False
        base = text[: match.start()].rstrip()[-1:]
        if match[0] != "^" or not base.isalnum():
            grouped *= size
        elif base.isalpha() and size > MAX_SYMBOL_POWER:
            return False
        else:
            single = max(single, size)
    symbolic = re.search("[A-Za-z]", _COMMAND.sub("", text))
    return single * grouped <= MAX_POWER and not (symbolic and grouped > MAX_GROUP_POWER)


def _as_latex(text: str) -> str:
    """Units, spacing and signs of currency dropped; sqrt(2), ** and Unicode signs written as LaTeX."""
    plain = (
        text.replace("\\$", "").replace("\\%", "").replace("%", "").replace("**", "^").translate(_READABLE)
    )
    plain = _BARE_NAME.sub(r"\\", _SPACING.sub(" ", plain).replace("{,}", ","))
    while call := _SQRT_CALL.search(plain):
        inside = _group(plain, call.end())
        if inside is None:
            break
        plain = f"{plain[: call.start()]}\\sqrt{{{inside[0]}}}{plain[inside[1] :]}"
    return _UNIT.sub("", plain).strip(" .")


def read_expression(text: str) -> str | None:
    """The text as LaTeX that is cheap to evaluate, without units, signs of currency and percent signs.

    None where it is empty, in words, or could be expensive. Never raises; linear in the text.
    """
    inside = unwrap(text)
    if inside is None or len(inside) > MAX_CHARS:
        return None
    plain = _as_latex(inside)
    if not plain or _ALLOWED.fullmatch(plain) is None or _deepest(plain) > MAX_DEPTH:
        return None
    commands = _COMMAND.findall(plain)
    if not _COMMANDS.issuperset(commands):
        return None
    if sum(name in _CALLS for name in commands) > MAX_CALLS:
        return None
    if sum(name in _CURVES for name in commands) > MAX_CURVES:
        return None
    rest = _COMMAND.sub(" ", plain)
    if re.search(r"[A-Za-z]{3}", rest) or len(set(re.findall("[A-Za-z]", rest))) > MAX_LETTERS:
        return None
    if (
        re.search(rf"[0-9.,]{{{MAX_NUMBER_DIGITS + 1}}}|[0-9)\]}}] *_|[0-9][eE][0-9]", rest)
        or plain.count("=") > 1
    ):
        return None
    return plain if _powers_are_small(plain) else None


def cheap_to_compare(first: str, second: str) -> bool:
    """Whether two texts from `read_expression` are cheap to compare, which takes their difference.

    Simplifying writes n log(a) as log(a^n) and expands functions of sums, so that logarithms, sines and the
    like are only compared among small numbers. An equation is solved: no variable may be in its exponents.
    """
    both = f"{first} {second}"
    digits = len(re.findall("[0-9]", both))
    if _LOGARITHM.search(both) and (digits > 6 or re.search(r"[^A-Za-z ] *\^", both)):
        return False
    if _CURVE.search(both) and (digits > 8 or re.search(r"[^A-Za-z ] *\^(?! *\{?2(?![0-9]))", both)):
        return False
    return not (_RELATION.search(both) and _VARIABLE_POWER.search(both))
