"""Monitors of reward hacking and of thinking: numbers that no reward pays for, so that they tell.

All are means over answers, logged in evaluation and at every training step, and start with `monitor/`. |P|
is everything an answer claims, refused items included; an answer that claims nothing has share 0.

monitor/long_frac            answers of more than `long_above` tokens (by default 3000, the limit above which
                             VLM-R1's account of its trials counts runaway outputs)
monitor/items_per_truth      |P| / |G|; rec, ovd and point samples with true boxes
monitor/duplicates_frac      share of |P| that repeats an earlier box: same label, IoU > 0.9; ovd
monitor/unknown_labels_frac  share of |P| whose label is neither asked for nor true; ovd
monitor/absent_boxes         boxes whose label is asked for, but not true; ovd
monitor/think_words          words between the think tags, 0 without a proper pair
monitor/think_tokens         its tokens, where the rollout counted them
monitor/think_names_present  answers whose think text names every target that is there and none that is not,
                             as whole words (a name inside a longer target's name does not count); 0 without
                             a proper think pair; ovd with targets
monitor/think_distinct       different think texts / answers (case and spacing aside; no think text is one)

The targets are asked for. Data that comes as a conversation may ask for more names than its truth tells, so
there a label that a user turn holds as whole words is asked for as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from groundrl.geometry.labels import normalise_label
from groundrl.parsing.answer import LOCATING, Answer
from groundrl.rewards.detection import count_duplicates
from groundrl.rewards.graded import Graded
from groundrl.types import Rollout, Sample, Task, TextPart

LONG_ABOVE = 3000
_NAMED_CHARS = 20_000
"""How much of a text is searched for names: normalising runs of combining marks is quadratic."""
DISTINCT = "monitor/think_distinct"


def monitors(
    rollout: Rollout,
    sample: Sample,
    answer: Answer,
    *,
    long_above: int = LONG_ABOVE,
) -> dict[str, float]:
    """The monitors of one answer, those of its sample's task; `think_distinct` needs several answers."""
    think = answer.think or ""
    values = {
        "monitor/long_frac": float(rollout.num_student_tokens > long_above),
        "monitor/think_words": float(len(think.split())),
    }
    if rollout.think_tokens is not None:
        values["monitor/think_tokens"] = float(rollout.think_tokens)
    if sample.task in LOCATING and sample.truth.boxes:
        values["monitor/items_per_truth"] = answer.num_items / len(sample.truth.boxes)
    if sample.task is Task.ovd:
        values |= _detection(sample, answer)
    return values


def _detection(sample: Sample, answer: Answer) -> dict[str, float]:
    present = {normalise_label(box.label) for box in sample.truth.boxes}
    asked = {normalise_label(target) for target in sample.targets if target.strip()}
    wrong = [label for box in answer.boxes if (label := normalise_label(box.label)) not in present]
    asked_in_talk = _asked_in_talk(sample, wrong)
    absent = sum(label in asked or label in asked_in_talk for label in wrong)
    claimed = max(answer.num_items, 1)
    values = {
        "monitor/duplicates_frac": count_duplicates(answer.boxes) / claimed,
        "monitor/unknown_labels_frac": (len(wrong) - absent) / claimed,
        "monitor/absent_boxes": float(absent),
    }
    if asked:
        named = named_in(answer.think[:_NAMED_CHARS], asked) if answer.think is not None else None
        values["monitor/think_names_present"] = float(named == asked & present)
    return values


def _asked_in_talk(sample: Sample, labels: Iterable[str]) -> set[str]:
    """Which of the normalised labels the user turns of the sample's own conversation name."""
    turns = (message.parts for message in sample.messages if message.role == "user")
    texts = [part.text for parts in turns for part in parts if isinstance(part, TextPart)]
    talk = normalise_label("\n".join(texts)[:_NAMED_CHARS])
    # the cheap test first: an answer may hold thousands of labels, and a pattern tries each everywhere
    return {label for label in set(labels) if label and label in talk and named_in(talk, {label})}


def named_in(text: str, labels: set[str]) -> set[str]:
    """Which of the normalised, non-empty `labels` (at least one) occur in `text` as whole words; of
    overlapping ones the leftmost, then the longest ("hot dog" does not name "dog")."""
    longest_first = sorted(labels, key=lambda label: (-len(label), label))
    pattern = "|".join(re.escape(label) for label in longest_first)
    return set(re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", normalise_label(text)))


def think_distinct(answers: Sequence[Answer]) -> list[float]:
    """One over the number of answers that share an answer's think text, per answer.

    The mean is the number of different texts over the number of answers, and unlike that ratio it can be
    resampled and paired.
    """
    texts = [" ".join((answer.think or "").casefold().split()) for answer in answers]
    counts = Counter(texts)
    return [1 / counts[text] for text in texts]


def batch_monitors(
    rows: Sequence[Graded],
    *,
    long_above: int = LONG_ABOVE,
) -> dict[str, float]:
    """The mean of each monitor over the answers that have it, sorted by name; empty for no rows."""
    found: dict[str, list[float]] = {}
    for row in rows:
        values = monitors(row.rollout, row.sample, row.answer, long_above=long_above)
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    if rows:
        found[DISTINCT] = think_distinct([row.answer for row in rows])
    return {name: sum(values) / len(values) for name, values in sorted(found.items())}
