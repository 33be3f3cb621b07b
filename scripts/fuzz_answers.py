"""Answers for fuzzing: good ones from a small grammar for every task, and what can go wrong with them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence

from groundrl.types import LabeledBox, Sample, Task

Mutation = Callable[[str, random.Random], str]

LONG = 100_000
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
ODD_CHARACTERS = (
    "\x00", "\x07", "\x1b[0m", "\x7f", "\x85", "\u2028", "\ud800", "\udfff", "\udc80", "\ufeff", "\u202e",
    "\u0301", "\u200d", "\u00a0", "\uff11", "\u0661", "\u0130", "\u00df", "\ufb03", "\U0001f431", "\\", '"',
    "'", "`", "{", "}", "[", "]", "<", ">", ",", ":", "\r", "\n", "\t", "\\u0000", "\\ud800", '\\"',
)  # fmt: skip
ODD_NUMBERS = (
    "NaN", "Infinity", "-Infinity", "1e309", "-1e309", "1e-400", "1e308", "-0", "-0.0", "007", "0x10",
    "1_000", "+5", "--3", "1.2.3", ".5", "5.", "1e", "٣", "true", "null", '"12"', '" 7 "', '"1e999"', '"nan"',
    '""', "9" * 64, "9" * 65, "9" * 5000, "0." + "0" * 70 + "1", "1" + "0" * 400, "1/0", "1,234.5", "12%",
    "[]", "{}",
)  # fmt: skip
BOMBS = (
    "9**9**9**9", "9^{9^{9^{9}}}", "\\frac{1}{0}", "\\boxed{" * 40, "\\boxed{12}", "\\sqrt{-1}", "10!!!!!!",
    "x^2 + 1 = 0", "\\left(\\left(\\left(", "__import__('os')", "lambda: 0", '"cat"', "true", "null",
    "1" * 400 + "^" + "9" * 9,
)  # fmt: skip
FENCES = ("```json\n", "```", "\n```\n", "```JSON", "````", "~~~", "```python\n", "```json```")
PROMPT = (
    "Detect the targets. Answer as <think>...</think><answer>```json\n"
    '[{"bbox_2d": [x1, y1, x2, y2], "label": "..."}]\n```</answer> or <answer>None</answer>.\n'
)
SENTENCES = {
    Task.mcq: ("{}", "({})", "{}.", "{}) cat", "Option {}", "The answer is {}", "**{}**", "A or B", "A cat"),
    Task.yes_no: ("{}", "{}, because it is.", "**{}**", "I do not know", "maybe", "yes and no", '"{}"'),
    Task.numeric: ("{}", "{} cm", "= {}", "\\boxed{{{}}}", "${}", "{}%", "about {} or 99", "3/4", "-{}e2"),
    Task.text: ("{}", "{}.", " {} ", "The {}", "\\boxed{{{}}}"),
    Task.region_label: ("{}", "{}.", "a {}", "{} {}"),
}


def good(sample: Sample, rng: random.Random) -> str:
    """An answer in a form that the parser accepts, right or wrong."""
    gap = rng.choice(("", "\n"))
    return f"<think>{_thought(sample, rng)}</think>{gap}<answer>{_body(sample, rng)}</answer>"


def _thought(sample: Sample, rng: random.Random) -> str:
    return rng.choice(("", "I look.", "line\nline", "no, yes, B, 12 " * 5, " and ".join(sample.targets)))


def _body(sample: Sample, rng: random.Random) -> str:
    if sample.task in SENTENCES:
        truth = sample.truth.answer or ""
        word = rng.choice((truth, truth.upper(), rng.choice(("A", "no", "41.5", "cat", "Option C"))))
        return rng.choice(SENTENCES[sample.task]).format(word, word)
    if rng.random() < 0.1:
        return rng.choice(("None", "none.", "[]", "```json\n[]\n```", "```\nNone\n```"))
    count = 1 if sample.task is Task.rec and rng.random() < 0.8 else rng.choice((1, 1, 2, 3, 5, 12, 40))
    items = [_item(sample, rng) for _ in range(count)]
    value: object = items[0] if count == 1 and rng.random() < 0.5 else items
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    return text if rng.random() < 0.3 else f"```json\n{text}\n```"


def _item(sample: Sample, rng: random.Random) -> object:
    truths: Sequence[LabeledBox] = sample.truth.boxes
    xyxy = [rng.uniform(-50.0, 1100.0) for _ in range(4)]
    label = rng.choice((*sample.targets, "unicorn", "Café", 'a "red" car', "```json", "[{", "}" * 40))
    if truths and rng.random() < 0.7:
        true = rng.choice(truths)
        xyxy, label = [value + rng.choice((0, 0, 1, -3.5)) for value in true.xyxy], true.label or label
    coordinates: list[object] = [round(value, rng.choice((0, 1))) for value in xyxy]
    if rng.random() < 0.1:
        coordinates = [str(value) for value in coordinates]
    if rng.random() < 0.1:
        return coordinates
    key = "point_2d" if sample.task is Task.point else "bbox_2d"
    item: dict[str, object] = {key: coordinates[:2] if key == "point_2d" else coordinates, "label": label}
    if rng.random() < 0.1:
        item["image"] = rng.choice((0, 1, 2, -1, 0.5, "0", None))
    return item


def _place(text: str, rng: random.Random) -> int:
    return rng.randint(0, len(text))


def _insert(text: str, part: str, rng: random.Random) -> str:
    place = _place(text, rng)
    return text[:place] + part + text[place:]


def truncate(text: str, rng: random.Random) -> str:
    return text[: _place(text, rng)]


def flip(text: str, rng: random.Random) -> str:
    """Some characters replaced by any others."""
    characters = list(text)
    for _ in range(rng.randint(1, 6)):
        if characters:
            characters[rng.randrange(len(characters))] = chr(
                rng.choice((rng.randrange(128), rng.randrange(0x11000)))
            )
    return "".join(characters)


def odd_character(text: str, rng: random.Random) -> str:
    return _insert(text, rng.choice(ODD_CHARACTERS) * rng.choice((1, 1, 3, 50)), rng)


def repeat(text: str, rng: random.Random) -> str:
    first, last = sorted((_place(text, rng), _place(text, rng)))
    return text[:last] + text[first:last] * rng.choice((1, 2, 8)) + text[last:]


def cut_out(text: str, rng: random.Random) -> str:
    first, last = sorted((_place(text, rng), _place(text, rng)))
    return text[:first] + text[last:]


def tag(text: str, rng: random.Random) -> str:
    """A tag too many, too few, nested, in another case, or exchanged for another."""
    one, other = rng.choice(TAGS), rng.choice(TAGS)
    nested = text.replace("<answer>", "<answer><answer>").replace("</answer>", "</answer></answer>")
    return rng.choice(
        (_insert(text, one, rng), text.replace(one, ""), text.replace(one, other), nested,
         text.replace(one, one.upper()), text + text, f"<answer>{text}</answer>")
    )  # fmt: skip


def fence(text: str, rng: random.Random) -> str:
    one = rng.choice(FENCES)
    return rng.choice((_insert(text, one, rng), text.replace("```json", one), text.replace("```", one)))


def number(text: str, rng: random.Random) -> str:
    """One number, or all of them, replaced by an odd one."""
    count = rng.choice((0, 1))
    return re.sub(r"-?\d+(?:\.\d+)?", lambda _: rng.choice(ODD_NUMBERS), text, count=count)


def nest(text: str, rng: random.Random) -> str:
    depth = rng.choice((2, 31, 33, 200, 3000))
    opening, closing = rng.choice(("[]", "{}", ('{"a":', "}"), ("[[", "]]")))
    return rng.choice(
        (_insert(text, opening * depth + closing * depth, rng), _insert(text, opening * depth, rng),
         text.replace("[", opening * depth, 1))
    )  # fmt: skip


def echo(text: str, rng: random.Random) -> str:
    return rng.choice((PROMPT + text, text + PROMPT, PROMPT))


def keys(text: str, rng: random.Random) -> str:
    """Keys exchanged, misspelt, doubled or with values of another kind."""
    return rng.choice(
        (text.replace("bbox_2d", "\0").replace("label", "bbox_2d").replace("\0", "label"),
         text.replace("bbox_2d", rng.choice(("bbox", "point_2d", "box_2d", "BBOX_2D"))),
         text.replace('"label"', '"label": null, "label"'), text.replace('"label": "', '"label": ["'),
         text.replace('"bbox_2d": [', '"bbox_2d": [['), text.replace("{", '{"image": 1, '))
    )  # fmt: skip


def bomb(text: str, rng: random.Random) -> str:
    return f"<think>t</think><answer>{rng.choice(BOMBS)}</answer>"


def long_run(text: str, rng: random.Random) -> str:
    """A run of about 100,000 characters somewhere."""
    part = rng.choice(
        (
            *ODD_CHARACTERS,
            *TAGS,
            *FENCES,
            "9",
            "a",
            "no ",
            "[1, 2, 3, 4], ",
            '{"bbox_2d": [1,2,3,4], "label": "cat"}, ',
        )
    )
    return _insert(text, part * (LONG // len(part)), rng)


MUTATIONS: tuple[Mutation, ...] = (
    truncate, flip, odd_character, repeat, cut_out, tag, fence, number, nest, echo, keys, bomb,
)  # fmt: skip


def answer(sample: Sample, rng: random.Random) -> str:
    """A good answer, mutated up to three times (one in six is left alone, one in 2,000 grows a long run)."""
    text = good(sample, rng)
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        text = rng.choice(MUTATIONS)(text, rng)[: 2 * LONG]
    return long_run(text, rng) if rng.random() < 1 / 2000 else text
