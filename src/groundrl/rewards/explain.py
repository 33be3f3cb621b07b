"""Why an answer earned what it earned.

    python -m groundrl.rewards.explain --reward odlength --cases cases.jsonl [--json] [WORD ...]

Each line of the file is a case (`cases.py`). Terms, weights and parser are those of `train.py reward=...` at
paper scale; further words change them (`scale=tiny`, `reward.terms.format.weight=0.5`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.errors import ConfigError, DataError
from groundrl.geometry.boxes import as_array, pairwise_iou
from groundrl.geometry.labels import normalise_label
from groundrl.geometry.matching import greedy_match
from groundrl.rewards.cases import Case, read_cases
from groundrl.rewards.graded import Graded
from groundrl.types import CoordinateSpace, LabeledBox, Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Print an account of each case; 0, or 2 with one line on stderr when the input cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m groundrl.rewards.explain", description="Why an answer earned what it earned."
    )
    parser.add_argument("--reward", required=True, help="an option of the reward group, e.g. odlength")
    parser.add_argument("--cases", required=True, type=Path, help="JSON lines: truth, image_size, answer")
    parser.add_argument("--json", action="store_true", help="one JSON object a case instead of text")
    parser.add_argument(
        "--frame",
        default=CoordinateSpace.PIXEL_ORIGINAL.value,
        choices=[space.value for space in CoordinateSpace],
        help="the space in which the answers' coordinates are written (default: pixel_original)",
    )
    parser.add_argument("--progress", type=float, default=0.0, help="training progress in [0, 1]")
    parser.add_argument("words", nargs="*", metavar="WORD", help="further settings, as for train.py")
    given = parser.parse_args(arguments)
    if not 0 <= given.progress <= 1:
        parser.error(f"--progress must lie in [0, 1], got {given.progress}")
    return guard(_print, given, words=[f"reward={given.reward}", *given.words])


def _print(given: argparse.Namespace) -> None:
    for line in explain(
        given.reward,
        given.cases,
        as_json=given.json,
        space=CoordinateSpace(given.frame),
        progress=given.progress,
        words=given.words,
    ):
        print(line)


def explain(
    reward: str,
    cases: Path,
    *,
    as_json: bool,
    space: CoordinateSpace,
    progress: float = 0.0,
    words: Sequence[str] = (),
) -> Iterator[str]:
    """The account of each case of a file. Raises UserError or Hydra's errors on input it cannot use."""
    config = compose_run([f"reward={reward}", "scale=3b", *words]).reward
    try:
        rubric = config.build()
    except ConfigError as error:
        raise error.at("reward") from None
    for case in read_cases(cases, task=config.task, space=space):
        try:
            rubric.check_tasks([case.sample.task])
        except ConfigError as error:
            raise DataError(cases, error.problem, row=case.row, todo=error.todo) from None
        graded = rubric.grade(case.rollout, case.sample, progress=progress)
        yield json.dumps(as_record(case, graded), ensure_ascii=False) if as_json else as_text(case, graded)


def as_record(case: Case, graded: Graded) -> dict[str, Any]:
    """One case as plain values: parse, pairs, terms with their values before weighting, total."""
    answer, breakdown = graded.answer, graded.breakdown
    terms: dict[str, Any] = {}
    for name, term in breakdown.terms.items():
        weight = breakdown.weights[name]
        if isinstance(term, Missing):
            terms[name] = {"value": None, "weight": weight, "missing": term.reason}
        else:
            terms[name] = {"value": term.value, "weight": weight, "detail": dict(term.detail)}
    return {
        "row": case.row,
        "status": answer.status.value,
        "rejected": [reason.value for reason in answer.rejected],
        "truncated": answer.truncated,
        "boxes": [_box(box) for box in answer.boxes],
        "points": [{"point_2d": list(point.xy), "label": point.label} for point in answer.points],
        "value": answer.value,
        "pairs": [
            {"predicted": p, "true": t, "iou": iou, "same_label": same}
            for p, t, iou, same in pairs(answer.boxes, case.sample.truth.boxes)
        ],
        "terms": terms,
        "total": breakdown.total,
    }


def pairs(predicted: Sequence[LabeledBox], true: Sequence[LabeledBox]) -> list[tuple[int, int, float, bool]]:
    """One-to-one pairs of overlapping boxes, labels aside, largest IoU first.

    Each is (index of the predicted box, index of the true one, IoU, whether the labels agree).
    """
    iou = pairwise_iou(as_array(box.xyxy for box in predicted), as_array(box.xyxy for box in true))
    return [
        (p, t, float(iou[p, t]), normalise_label(predicted[p].label) == normalise_label(true[t].label))
        for p, t in greedy_match(iou, threshold=0.0)
    ]


def as_text(case: Case, graded: Graded) -> str:
    """One case as a readable account."""
    record, sample = as_record(case, graded), case.sample
    total = "missing" if record["total"] is None else f"{record['total']:.4f}"
    lines = [f"case {case.row} ({sample.task}): total {total}"]
    lines.append(
        f"  parse     {record['status']}" + (", cut by the length limit" if record["truncated"] else "")
    )
    lines += [f"  refused   an item: {reason}" for reason in record["rejected"]]
    if sample.truth.answer is not None:
        lines.append(f"  answer    {record['value']!r}, truth {sample.truth.answer!r}")
    partner = {p: (t, iou, same) for p, t, iou, same in pairs(graded.answer.boxes, sample.truth.boxes)}
    for index, box in enumerate(graded.answer.boxes):
        verdict = "no true box left"
        if index in partner:
            verdict = _verdict(sample.truth.boxes, *partner[index])
        lines.append(f"  box       {_shown(box)}: {verdict}")
    for point in graded.answer.points:
        lines.append(f"  point     ({point.xy[0]:g}, {point.xy[1]:g}) {point.label}".rstrip())
    found = {t for t, _, _ in partner.values()}
    for index, box in enumerate(sample.truth.boxes):
        if index not in found and not graded.answer.points:
            lines.append(f"  missed    {_shown(box)}")
    for name, term in record["terms"].items():
        if term["value"] is None:
            lines.append(f"  term      {name}: missing ({term['missing']})")
            continue
        detail = ", ".join(f"{key} {value:.4g}" for key, value in term["detail"].items())
        amount = f"{term['value']:.4f} x {term['weight']:g}"
        lines.append(f"  term      {name}: {amount}" + (f"  ({detail})" if detail else ""))
    return "\n".join(lines)


def _verdict(true: Sequence[LabeledBox], index: int, iou: float, same: bool) -> str:
    return f"IoU {iou:.3f} with {_shown(true[index])}" + ("" if same else ", another label")


def _shown(box: LabeledBox) -> str:
    return f"[{', '.join(f'{v:g}' for v in box.xyxy)}] {box.label}".rstrip()


def _box(box: LabeledBox) -> dict[str, Any]:
    return {"bbox_2d": list(box.xyxy), "label": box.label, "image": box.image}


if __name__ == "__main__":
    raise SystemExit(main())
