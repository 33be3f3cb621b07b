"""Detection rows of VLM-R1 in which nothing is: the names asked for stand in the human turn alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.data.vlm_r1 import VlmR1Config
from groundrl.evaluation.metrics import SampleResult, summarise
from groundrl.evaluation.monitors import monitors
from groundrl.prompting.lint import check_prompts, lint
from groundrl.rewards.graded import Graded
from groundrl.rollout.written import written_rollout
from groundrl.types import ImageFrame, ImagePart, Sample, Scored, TextPart

FRAME = ImageFrame(original=(40, 30), processed=(40, 30))
ASK = "<image>Find: cat; hot dog. Write None if none is there."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    return tmp_path


def sample(folder: Path, solution: str, ask: str = ASK) -> Sample:
    turns = [{"from": "human", "value": ask}, {"from": "gpt", "value": solution}]
    row = {"image": "a.png", "accu_reward_method": "odLength", "conversations": turns}
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    return VlmR1Config(path=str(file), heldout_path=str(file)).build(Split.TRAIN).sample(0)


def boxes(*labels: str) -> str:
    items = [{"bbox_2d": [n, 0, n + 9, 9], "label": label} for n, label in enumerate(labels)]
    return f"<think>t</think><answer>```json\n{json.dumps(items)}\n```</answer>"


def graded(text: str, of: Sample) -> Graded:
    rubric = compose_run(["reward=odlength"]).reward.build()
    return rubric.grade(written_rollout(of.id, text, [FRAME]), of)


def found(text: str, of: Sample) -> dict[str, float]:
    row = graded(text, of)
    return monitors(row.rollout, of, row.answer)


NOTHING = "<think>t</think><answer>None</answer>"


def test_the_prompt_shows_the_row_as_it_stands_and_has_no_defect(folder: Path) -> None:
    prompt = compose_run(["reward=odlength"]).prompt.build()
    none = sample(folder, "None")
    assert (none.targets, none.truth.boxes) == ((), ())
    (message,) = prompt.messages(none)
    assert message.parts[:2] == (ImagePart(0), TextPart(ASK.removeprefix("<image>")))
    assert lint(prompt.messages(none), none, prompt.config) == []
    assert check_prompts(prompt, [none]) == []


def test_false_alarms_on_a_row_without_objects(folder: Path) -> None:
    """Two answers: None, and three boxes of which two have a name that was asked for."""
    none = sample(folder, "None")
    answers = [graded(text, none) for text in (NOTHING, boxes("cat", "Hot  dog", "unicorn"))]
    summary = summarise([SampleResult.of(answers)], prefix="sampled", resamples=0)
    metrics = {name.removeprefix("sampled/"): one.value for name, one in summary.items()}
    assert (metrics["false_alarm"], metrics["negatives_right"]) == (0.5, 0.5)
    assert metrics["absent_boxes_mean"] == 1.5
    assert metrics["monitor/absent_boxes"] == 1.0  # 0 and 2
    assert metrics["monitor/unknown_labels_frac"] == pytest.approx(1 / 6)  # 0 and 1 / 3
    assert "monitor/think_names_present" not in metrics  # which names are asked for is not known


def test_the_rubric_pays_silence_where_nothing_is(folder: Path) -> None:
    none = sample(folder, "None")
    right, wrong = (graded(text, none).breakdown for text in (NOTHING, boxes("cat")))
    assert right.total is not None
    assert wrong.total is not None
    assert right.total > wrong.total
    term = right.terms["odlength"]
    assert isinstance(term, Scored)
    assert term.value == 1.0


def test_a_name_is_asked_for_as_whole_words_of_a_user_turn(folder: Path) -> None:
    some = sample(folder, '```json\n[{"bbox_2d": [0, 0, 9, 9], "label": "cat"}]\n```')
    assert some.targets == ("cat",)
    values = found(boxes("cat", "hot dog", "ot dog", "Find", "", "c", "\U0001f984"), some)
    assert values["monitor/absent_boxes"] == 2  # "hot dog" and "Find", which the turn holds as well
    known = found(boxes("cat", "hot dog"), Sample(id="s", task=some.task, images=(), truth=some.truth))
    assert known["monitor/absent_boxes"] == 0  # no conversation, so only targets are asked for


def test_adversarial_labels_and_turns_are_survived(folder: Path) -> None:
    long = sample(folder, "None", "<image>" + "a\u0301" * 30_000 + " cat")
    values = found(boxes(*("(" * n + "[a-z]*\\" for n in range(1, 60)), "cat"), long)
    assert values["monitor/absent_boxes"] == 0  # the name stands beyond what is searched
    assert found("<answer>[[[", long)["monitor/absent_boxes"] == 0
