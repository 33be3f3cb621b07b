"""What may stand around a final answer without changing it: a box, bold, quotes, math signs."""

from __future__ import annotations

BOX = "\\boxed"
_AROUND = " \t\r\n*_`\"'“”‘’«»$"
_WRAPPERS = ("\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{")
_MAX_LAYERS = 4


def _closing(text: str, opening: int) -> int:
    """Index of the brace that closes the one at `opening`, or -1."""
    depth = 0
    for index in range(opening, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index
    return -1


def unwrap(text: str) -> str | None:
    r"""The answer without what stands around it; linear in the text.

    The inside of `\boxed{...}` is all that counts, so that text around it is not read. None where a box is
    not closed, or where there are several, which may disagree.
    """
    if BOX in text:
        if text.count(BOX) > 1:
            return None
        opening = text.index(BOX) + len(BOX)
        closing = _closing(text, opening) if text[opening : opening + 1] == "{" else -1
        if closing < 0:
            return None
        text = text[opening + 1 : closing]
    for _ in range(_MAX_LAYERS):
        text = text.strip(_AROUND)
        for opener in _WRAPPERS:
            if text.startswith(opener) and text[len(opener) :].find("}") == len(text) - len(opener) - 1:
                text = text[len(opener) : -1]
                break
        else:
            break
    return text
