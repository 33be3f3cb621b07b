"""Evaluated answers on disk: what was written, not how it was judged.

An evaluation that was stopped goes on after its last whole batch; one that is done is judged again from its
file, by the same code, which gives the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundrl.errors import CheckpointError
from groundrl.rollout.written import written_rollout
from groundrl.tracking.lines import JsonLines, read_lines, write_atomic
from groundrl.types import CoordinateSpace, ImageFrame, Role, Rollout, RolloutStatus, Said


class Journal:
    """The answers of one evaluation in a file, one JSON object a completion, in the order of asking.

    What the file holds is taken from the front; at the first answer that is asked for in vain the rest of the
    file goes, as it belongs to a batch that was not finished.
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """`writes`: whether this process is the one that appends.

        Raises CheckpointError for a file with lines that are no answers (a last half line is dropped).
        """
        self.path = path
        self._writes = writes
        self._ended = False
        self._stored = read_answers(path) if path.exists() else []
        self._taken = 0
        self._lines: JsonLines | None = None

    def take(self, kind: str, count: int) -> list[Rollout] | None:
        """The next `count` answers; None, from then on, when the file does not hold them all."""
        piece = self._stored[self._taken : self._taken + count]
        if self._ended or [one for one, _ in piece] != [kind] * count:
            self._ended = True
            return None
        self._taken += count
        return [rollout for _, rollout in piece]

    def add(self, kind: str, rollouts: Sequence[Rollout]) -> None:
        """Append the answers of a batch; nothing more is taken then."""
        if not rollouts:
            return
        self._ended = True
        if not self._writes:
            return
        if self._lines is None:
            kept = [_record(*one) for one in self._stored[: self._taken]]
            write_atomic(self.path, "".join(json.dumps(one) + "\n" for one in kept).encode())
            self._lines = JsonLines(self.path)
        for rollout in rollouts:
            self._lines.append(_record(kind, rollout))

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()


def read_answers(path: Path) -> list[tuple[str, Rollout]]:
    """(how it was drawn, rollout) of each line. Raises CheckpointError for lines that are no answers."""
    found = read_lines(path)
    if found.unreadable > 1:
        raise CheckpointError(f"{path}: {found.unreadable} lines cannot be read; delete it to evaluate anew")
    try:
        return [(str(entry["kind"]), _rollout(entry)) for entry in found.records]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: holds a line that is no answer ({error!r}); evaluate anew") from None


def _record(kind: str, rollout: Rollout) -> dict[str, Any]:
    return {
        "kind": kind,
        "sample_id": rollout.sample_id,
        "index": rollout.index,
        "status": str(rollout.status),
        "tokens": rollout.num_student_tokens,
        "think_tokens": rollout.think_tokens,
        "text": rollout.text,
        "frames": [[frame.original, frame.processed] for frame in rollout.frames],
        "space": str(rollout.coordinate_space),
        **({"said": [[one.role, one.text, one.tokens] for one in rollout.said]} if rollout.said else {}),
    }


def _rollout(entry: Mapping[str, Any]) -> Rollout:
    return written_rollout(
        entry["sample_id"],
        entry["text"],
        [ImageFrame(original=(o[0], o[1]), processed=(p[0], p[1])) for o, p in entry["frames"]],
        space=CoordinateSpace(entry["space"]),
        status=RolloutStatus(entry["status"]),
        tokens=int(entry["tokens"]),
        think_tokens=entry.get("think_tokens"),
        index=int(entry["index"]),
        said=tuple(
            Said(role=Role(role), text=str(text), tokens=int(tokens))
            for role, text, tokens in entry.get("said", ())
        ),
    )
