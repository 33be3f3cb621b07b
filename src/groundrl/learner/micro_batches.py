"""Which rows go through the model together.

Rows with the same prompt stay together where the limit allows it, and the largest micro-batch comes first, so
that a run that does not fit fails in its first step. The order inside a micro-batch is that of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrl.models.forward import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `rows` rows, or, when `tokens` is set, at most so many tokens (a single row may exceed it).

    `shared`: rows with the same prompt compute it once (learner/logprobs.py). Rows of which no two share one
    are padded, so each counts as long as the longest.
    """

    rows: int
    tokens: int | None = None
    shared: bool = True


def micro_batches(rows: Sequence[Row], limit: Limit) -> list[list[int]]:
    """Numbers of the rows of each micro-batch; every row is in exactly one.

    Groups that exceed the limit are cut; what is left is placed largest first into the first micro-batch
    with room (first-fit decreasing).
    """
    keys = [(row.prompt.tobytes(), tuple(id(image) for image in row.images)) for row in rows]
    groups: dict[object, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)

    def cost(numbers: Sequence[int]) -> int:
        prompts = {keys[n]: len(rows[n].prompt) for n in numbers}
        if limit.shared and len(prompts) < len(numbers):
            return sum(prompts.values()) + sum(len(rows[n].completion) for n in numbers)
        return len(numbers) * max(len(rows[n].prompt) + len(rows[n].completion) for n in numbers)

    def fits(numbers: Sequence[int]) -> bool:
        return len(numbers) <= limit.rows if limit.tokens is None else cost(numbers) <= limit.tokens

    pieces: list[list[int]] = []
    for group in groups.values():
        pieces.append(group[:1])
        for number in group[1:]:
            if fits([*pieces[-1], number]):
                pieces[-1].append(number)
            else:
                pieces.append([number])
    batches: list[list[int]] = []
    for piece in sorted(pieces, key=cost, reverse=True):
        room = next((batch for batch in batches if fits([*batch, *piece])), None)
        if room is None:
            batches.append(list(piece))
        else:
            room += piece
    return [sorted(batch) for batch in sorted(batches, key=cost, reverse=True)]
