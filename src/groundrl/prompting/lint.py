"""Finds what is wrong with a prompt before a model is trained on it.

A prompt is its wording (the `prompt` group) filled with a sample's words, or the conversation that the data
brings. A defect is looked for in each, then in the rendered text for what only arises where they meet.
A missing space alone delayed learning by 60 steps in the blog of 2025-03-24, section 5.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundrl.errors import ConfigError, UserError
from groundrl.geometry.labels import normalise_label
from groundrl.prompting.defects import Defect
from groundrl.prompting.prompt import Prompt, PromptConfig
from groundrl.types import ImagePart, Message, Sample, Task

FIELDS = ("question", "targets")
ABBREVIATIONS = frozenset({"dr", "jr", "mr", "mrs", "ms", "no", "prof", "sr", "st", "vs"})
_SENTENCE_END = re.compile(r"(?<![\s.!?])[.!?][\"'”’)\]]?(?=([^\W\d_])([^\W_]?))")
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_GLUED_FIELD = re.compile(r"\{\w+\}(?:[.!?](?=[^\W\d_])|(?=[A-Z]))")
_DOUBLE_SPACE = re.compile(r"(?<=\S)[ \u00a0]{2,}(?=\S)")
_TAG = re.compile(r"<\s*(?:/\s*)?(?:think|answer)\s*(?:/\s*)?>", flags=re.I)
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_LONGEST_WORD = 20
_AROUND = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect. `key` names the setting whose wording has it; empty: the sample has it.

    error  the prompt cannot be what was meant, so a run must not start with it
    """

    code: Defect
    message: str
    key: str = ""
    error: bool = False


def lint(messages: Sequence[Message], sample: Sample, config: PromptConfig) -> list[Finding]:
    """The defects of one rendered prompt, each once: of the wording, of the sample, of both together.

    messages  what `Prompt(config).messages(sample)` made of the sample

    Declared defects are reported too; `check_prompts` leaves them out. A conversation that the data brings
    may hold its own format instruction, so tags are not looked for there. Never raises on text.
    """
    found = list(_of_sample(sample))
    if not sample.messages:
        found += _of_wording(config)
    codes = {finding.code for finding in found}
    for text in map(_text, messages):
        found += [finding for finding in _spaces(text, "") if finding.code not in codes]
    return list(dict.fromkeys(found))


def is_declared(finding: Finding, config: PromptConfig) -> bool:
    """Whether the finding is a defect of the wording that `known_defects` names."""
    return bool(finding.key) and finding.code in config.known_defects


def check_prompts(prompt: Prompt, samples: Sequence[Sample]) -> list[str]:
    """Lint the prompts of `samples`: a line per kind of defect, declared ones left out.

    Raises ConfigError (wording) or UserError (sample) for an unfilled field, or for tags in a question or a
    target.
    """
    counts: dict[tuple[Defect, str], int] = {}
    first: dict[tuple[Defect, str], str] = {}
    for sample in samples:
        seen: set[tuple[Defect, str]] = set()
        for finding in lint(prompt.messages(sample), sample, prompt.config):
            if finding.error and finding.key:
                raise ConfigError(finding.key, finding.message, todo="correct the wording")
            if finding.error:
                raise UserError(f"sample {sample.id}: {finding.message}; correct the data")
            if is_declared(finding, prompt.config):
                continue
            kind = (finding.code, finding.key)
            seen.add(kind)
            first.setdefault(kind, f"{finding.key or f'sample {sample.id}'}: {finding.message}")
        for kind in seen:
            counts[kind] = counts.get(kind, 0) + 1
    return [
        f"{kind[0]} in {counts[kind]} of {len(samples)} prompts; {message}" for kind, message in first.items()
    ]


def _of_wording(config: PromptConfig) -> Iterator[Finding]:
    for name in ("template", "suffix", "system"):
        text: str = getattr(config, name)
        key = f"prompt.{name}"
        yield from _spaces(text, key)
        for glued in _GLUED_FIELD.finditer(text):
            yield _glued(text, glued.end(), key)
        for field in _FIELD.finditer(text):
            ours = field[1] in FIELDS
            if (ours and name != "template") or not (ours or _is_markup(text, field.start())):
                filled = "only {question} and {targets} of the template are filled"
                message = f"nothing fills {field[0]}: {filled}"
                yield Finding(code=Defect.unfilled_field, message=message, key=key, error=True)


def _of_sample(sample: Sample) -> Iterator[Finding]:
    if sample.messages:
        texts = [_text(message) for message in sample.messages]
        asked = any(_text(message).strip("\0 \n") for message in sample.messages if message.role == "user")
    else:
        texts = [sample.question, *sample.targets]
        asked = bool(sample.targets if sample.task is Task.ovd else sample.question.strip())
        for text in texts:
            for tag in _TAG.finditer(text):
                message = f"{tag[0]} in {_near(text, tag.start())}"
                yield Finding(code=Defect.tags_inside, message=message, error=True)
    if not asked:
        yield Finding(code=Defect.empty_question, message="nothing is asked")
    yield from _targets(sample.targets)
    for text in texts:
        yield from _spaces(text, "")
        for field in _FIELD.finditer(text):
            ours = field[1] in FIELDS
            if ours or not _is_markup(text, field.start()):
                message = f"nothing filled {field[0]} in {_near(text, field.start())}"
                yield Finding(code=Defect.unfilled_field, message=message, error=ours)


def _targets(targets: Sequence[str]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for place, target in enumerate(targets):
        if not target.strip():
            yield Finding(code=Defect.empty_question, message=f"target {place} has no name")
            continue
        before = seen.setdefault(normalise_label(target), target)
        if target in targets[:place]:
            yield Finding(code=Defect.duplicate_targets, message=f"{target!r} is asked for twice")
        elif before != target:
            message = f"{before!r} and {target!r} are one category"
            yield Finding(code=Defect.equal_targets, message=message)


def _spaces(text: str, key: str) -> Iterator[Finding]:
    """Missing and doubled spaces."""
    for end in _SENTENCE_END.finditer(text):
        if end[1].isupper() and not end[2].isupper() and not _abbreviated(text, end.start()):
            yield _glued(text, end.end(), key)
    for space in _DOUBLE_SPACE.finditer(text):
        message = f"{len(space[0])} spaces in {_near(text, space.start())}"
        yield Finding(code=Defect.double_space, message=message, key=key)


def _abbreviated(text: str, mark: int) -> bool:
    """Whether the mark at `mark` ends an initial or a title and not a sentence."""
    if text[mark] != ".":
        return False
    word = _LAST_WORD.search(text[max(0, mark - _LONGEST_WORD) : mark])
    if word is None:
        return False
    return word[0].lower() in ABBREVIATIONS or (len(word[0]) == 1 and word[0].isupper())


def _is_markup(text: str, start: int) -> bool:
    r"""Whether a brace belongs to a formula (`\frac{a}{b}`, `x^{n}`) and is no field."""
    return start > 0 and (text[start - 1].isalnum() or text[start - 1] in "\\}]^_$")


def _glued(text: str, place: int, key: str) -> Finding:
    return Finding(code=Defect.missing_space, message=f"no space in {_near(text, place)}", key=key)


def _near(text: str, place: int) -> str:
    """The text around a place, quoted."""
    return repr(text[max(0, place - _AROUND) : place + _AROUND])


def _text(message: Message) -> str:
    """The text of a message, a NUL for each image."""
    return "".join("\0" if isinstance(part, ImagePart) else part.text for part in message.parts)
