"""`python -m groundrl.rewards.explain`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groundrl.rewards.explain import main

CAT = {"bbox_2d": [0, 0, 100, 100], "label": "cat"}
DOG = {"bbox_2d": [200, 200, 300, 300], "label": "dog"}
SIZE = [640, 480]


def answer(items: Any) -> str:
    return f"<think>t</think><answer>```json\n{json.dumps(items)}\n```</answer>"


def write(folder: Path, *cases: Any) -> str:
    file = folder / "cases.jsonl"
    lines = [case if isinstance(case, str) else json.dumps(case) for case in cases]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def case(items: Any, truth: Any = (CAT, DOG), **more: Any) -> dict[str, Any]:
    return {"truth": truth, "image_size": SIZE, "answer": answer(items)} | more


def records(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_json_line_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        tmp_path,
        case([CAT, DOG]),
        case([CAT, DOG, CAT, [1, 2]]),
        case("oops"),
        {"truth": None, "image_size": SIZE, "answer": "<answer>None</answer>"},
    )
    exact, more, bad, none = records(capsys, "--reward", "odlength", "--cases", path)
    assert (exact["status"], exact["rejected"], exact["total"]) == ("ok", [], 2.0)
    assert exact["terms"]["odlength"]["value"] == 1.0
    assert exact["terms"]["format"] == {"value": 1.0, "weight": 1.0, "detail": {"tags": 1.0, "body": 1.0}}
    # two hits before the copy: AP 1; four claimed items: 2 / 4
    assert (more["status"], more["rejected"]) == ("item_rejected", ["wrong_count"])
    assert more["terms"]["odlength"]["value"] == 0.5
    assert (more["terms"]["odlength"]["weight"], more["total"]) == (1.0, 1.5)
    assert [(pair["predicted"], pair["true"]) for pair in more["pairs"]] == [(0, 0), (1, 1)]
    assert (bad["status"], bad["total"]) == ("no_box", 0.0)
    assert (none["status"], none["total"]) == ("none", 1.0)  # right, but without a think pair
    assert [entry["row"] for entry in (exact, more, bad, none)] == [1, 2, 3, 4]


def test_the_account_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shifted = {"bbox_2d": [10, 10, 110, 110], "label": "dog"}
    far = {"bbox_2d": [500, 400, 600, 450], "label": "cat"}
    assert main(["--reward", "ap50", "--cases", write(tmp_path, case([shifted, far, {"label": "x"}]))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "case 1 (ovd): total 1.0000",
        "  parse     item_rejected",
        "  refused   an item: missing_box",
        "  box       [10, 10, 110, 110] dog: IoU 0.681 with [0, 0, 100, 100] cat, another label",
        "  box       [500, 400, 600, 450] cat: no true box left",
        "  missed    [200, 200, 300, 300] dog",
        "  term      ap50: 0.0000 x 1  (truths 2, items 3)",
        "  term      format: 1.0000 x 1  (tags 1, body 1)",
    ]


def test_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = {"bbox_2d": [0, 0, 50, 50], "label": "cat"}
    path = write(tmp_path, case([half], [CAT], processed_size=[320, 240]))
    (seen,) = records(capsys, "--reward", "odlength", "--cases", path, "--frame", "pixel_resized")
    assert (seen["boxes"][0]["bbox_2d"], seen["total"]) == ([0, 0, 100, 100], 2.0)
    (original,) = records(capsys, "--reward", "odlength", "--cases", path)
    assert original["terms"]["odlength"]["value"] == 0.0  # IoU 0.25
    relative = {"bbox_2d": [0, 0, 500, 500], "label": "cat"}
    path = write(tmp_path, case([relative], [{"bbox_2d": [0, 0, 320, 240], "label": "cat"}]))
    (seen,) = records(capsys, "--reward", "odlength", "--cases", path, "--frame", "rel1000")
    assert seen["total"] == 2.0


def test_tokens_words_and_other_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, case([CAT, DOG], num_tokens=512))
    (record,) = records(capsys, "--reward", "ws_cosine", "--cases", path)
    assert record["terms"]["cosine"]["value"] == pytest.approx(0.75)  # halfway from 1.0 to 0.5
    (tiny,) = records(capsys, "--reward", "ws_cosine", "--cases", path, "scale=tiny")
    assert tiny["terms"]["format"]["weight"] == 0.1
    (own,) = records(capsys, "--reward", "odlength", "--cases", path, "reward.terms.format.weight=0.5")
    assert own["total"] == 1.5
    row = {"truth": "B", "image_size": SIZE, "answer": "<think>t</think><answer>(B)</answer>", "task": "mcq"}
    (choice,) = records(capsys, "--reward", "answer", "--cases", write(tmp_path, row))
    assert (choice["value"], choice["total"], set(choice["terms"])) == ("B", 2.0, {"mcq", "format"})


def test_truncation_and_salvage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer([CAT, DOG])[:-40]
    path = write(tmp_path, {"truth": [CAT, DOG], "image_size": SIZE, "answer": text, "truncated": True})
    (cut,) = records(capsys, "--reward", "odlength", "--cases", path)
    assert (cut["status"], cut["truncated"], cut["total"]) == ("truncated", True, 0.0)
    (kept,) = records(capsys, "--reward", "odlength", "--cases", path, "reward.parsing.salvage=true")
    assert (kept["status"], kept["rejected"]) == ("salvaged", ["incomplete"])
    assert kept["terms"]["odlength"]["value"] == 0.5  # cat 1, dog 0; two claimed of two


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", "is not JSON"),
        ([1], "is a list, not an object"),
        (case([CAT], colour=1), "unknown key 'colour'"),
        ({"image_size": SIZE, "answer": "x"}, "`truth` is missing"),
        (case([CAT], 7), "`truth` is 7"),
        (case([CAT], [[0, 0, 1, 1]]), "true box [0, 0, 1, 1]"),
        (case([CAT], [{"bbox_2d": [5, 0, 1, 1], "label": "a"}]), "x1 < x2"),
        (case([CAT], [CAT | {"score": 1}]), "true box"),
        (case([CAT], image_size=[640]), "`image_size` must be [width, height]"),
        (case([CAT], image_size=[640, 0]), "`image_size` must be [width, height]"),
        (case([CAT], answer=None), "`answer` must be a text"),
        (case([CAT], num_tokens=-1), "`num_tokens` must be a whole number"),
        (case([CAT], num_tokens=True), "`num_tokens` must be a whole number"),
        (case([CAT], truncated="yes"), "`truncated` must be true or false"),
        (case([CAT], task="od"), "unknown task 'od'"),
        (case([CAT], task="mcq"), "task mcq has a text or a number as truth"),
        (case([CAT], targets="dog"), "`targets` is not a list"),
    ],
)
def test_bad_cases_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: Any, problem: str
) -> None:
    assert main(["--reward", "odlength", "--cases", write(tmp_path, case([CAT]), row)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert problem in message
    assert "row 2" in message


def test_a_case_that_no_term_covers_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, case([CAT]), case([CAT], "B", task="mcq"))
    assert main(["--reward", "odlength", "--cases", path, "~reward.terms.format"]) == 2
    assert "row 2: no term with a weight covers task 'mcq'" in capsys.readouterr().err


def test_unknown_rewards_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, case([CAT]))
    assert main(["--reward", "odlenght", "--cases", path]) == 2
    assert "did you mean odlength?" in capsys.readouterr().err
    assert main(["--reward", "odlength", "--cases", str(tmp_path / "no.jsonl")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["--reward", "custom", "--cases", path]) == 2
    assert "reward.path: has no value" in capsys.readouterr().err


def test_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "groundrl.rewards.explain", "--reward", "ap"]
    command += ["--cases", write(tmp_path, case([CAT]))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("case 1 (ovd): total 1.5000\n")  # cat 1, dog 0
    assert done.stderr == ""
