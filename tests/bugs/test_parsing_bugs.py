"""Known kinds of bug about None, tags, and answers that were cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.bugs.helpers import (
    DETECTION,
    accuracies,
    all_at,
    boxed,
    grade,
    graded_by_all,
    listed,
    main_term,
    measured,
    rubric,
    sample,
    values,
    wrap,
)
from tests.tiny import picture

from groundrl.models.load import Policy
from groundrl.models.processor import Processor
from groundrl.parsing.answer import ParseStatus, RejectReason
from groundrl.prompting.prompt import PromptConfig
from groundrl.rollout.collect import Collector
from groundrl.rollout.engines.base import Sampling
from groundrl.rollout.engines.scripted import ScriptedEngine
from groundrl.rollout.episode import Episode, Insertion, NextTurn
from groundrl.rollout.single_turn import SingleTurn
from groundrl.training.metrics import rollout_metrics, step_record
from groundrl.types import LabeledBox, Missing, Role, Rollout, RolloutStatus, Sample, Task, Truth

CAT, DOG = ((0, 0, 100, 100), "cat"), ((200, 200, 300, 300), "dog")
BOTH, ONE = sample(Task.ovd, CAT, DOG), sample(Task.ovd, CAT)
NOTHING = sample(Task.ovd, targets=["cat"])
CUT = RolloutStatus.TRUNCATED_LENGTH


@pytest.mark.parametrize("option", DETECTION)
def test_b16_malformed_json_is_not_the_answer_none(option: str) -> None:
    """A parse failure that reads as an empty list, which is right where nothing is there."""
    for body in (
        '[{"bbox',
        "```json\n[{]\n```",
        "[",
        "]",
        "[,]",
        "{}",
        "[[]]",
        "[null]",
        "[{}]",
        "```json\n",
    ):
        graded = grade(rubric(f"reward={option}"), NOTHING, wrap(body), tokens=10)
        assert main_term(option, graded) == 0, body
        assert values(graded)["format"] == 0, body
        assert graded.breakdown.total is not None
        assert graded.breakdown.total <= 0, body


def test_b16_sibling_refused_boxes_broken_tags_and_cut_answers_are_not_none() -> None:
    """Other ways to claim nothing by accident: no item survives, or no answer does."""
    refused = '[{"bbox_2d": [5, 5, 5, 5], "label": "cat"}]'
    texts = (
        wrap(refused),
        wrap('[{"bbox_2d": [0, 0, 9, 9]}]'),
        "None",
        "<answer>None",
        "<think>None</think>",
        "<answer>None</answer><answer>None</answer>",
        "<think>t<answer>None</answer></think>",
        wrap("None\n" + refused),
        wrap("None None"),
        wrap('"None"'),
    )
    for text in texts:
        assert accuracies(NOTHING, text) == all_at(0), text
        assert measured(graded_by_all(NOTHING, text))["image_ap"] == 0, text
    salvaging = grade(
        rubric("reward=f1", "reward.parsing.salvage=true"), NOTHING, wrap('[{"bbox'), status=CUT
    )
    assert values(salvaging) == {"f1": 0, "format": 0}


@pytest.mark.parametrize("option", DETECTION)
def test_b17_all_rewards_agree_on_what_none_is(option: str) -> None:
    """Prose, a full stop or an empty list that are None for one reward and not for another."""
    rules = rubric(f"reward={option}")
    for body in (
        "None",
        "none.",
        " NONE ",
        "[]",
        "[ \n ]",
        "```json\n[]\n```",
        "```json\nNone\n```",
        "```\n[]```",
    ):
        graded = grade(rules, NOTHING, wrap(body))
        assert (main_term(option, graded), graded.answer.status) == (1, ParseStatus.NONE), body
        assert main_term(option, grade(rules, ONE, wrap(body))) == 0, body
    for body in (
        "no objects",
        "null",
        "None found",
        "None..",
        "no",
        "0",
        "[[]]",
        "()",
        "nоne",
        "False",
        '""',
        "",
    ):
        assert main_term(option, grade(rules, NOTHING, wrap(body))) == 0, body


def test_b17_sibling_points_metrics_and_monitors_use_the_same_predicate() -> None:
    """Evaluation, or the task with points, with an idea of None of its own."""
    no_region = sample(Task.point)
    for body, right in (("None.", 1), ("[]", 1), ("no objects", 0), ("null", 0), ('[{"point', 0)):
        assert values(grade(rubric("reward=point"), no_region, wrap(body)))["point"] == right, body
        metrics = measured(graded_by_all(NOTHING, wrap(body)))
        assert (metrics["image_ap"], metrics["negatives_right"]) == (right, right), body
        assert metrics["false_alarm"] == 0, body
    for body in ('[{"bbox_2d": [0, 0, 9, 9], "label": "cat"}]', "[[]]", '[{"bbox_2d": [1, 1, 1, 1]}]'):
        metrics = measured(graded_by_all(NOTHING, wrap(body)))
        assert (metrics["false_alarm"], metrics["negatives_right"]) == (1, 0), body


@pytest.mark.parametrize("option", DETECTION)
def test_b18_line_breaks_do_not_fail_the_format(option: str) -> None:
    """A pattern whose dot stops at a line break, or that a last line break fails."""
    answer = listed(CAT).removeprefix("<think>t</think>\n")
    graded = grade(rubric(f"reward={option}"), ONE, f"<think>line one\nline two</think>\n{answer}\n")
    assert values(graded)["format"] == 1
    assert main_term(option, graded) == pytest.approx(1)


@pytest.mark.parametrize("around", ["", "\n", "\r\n", "\n\n\n", " \t", "\u2028", "\v\f"])
def test_b18_sibling_any_whitespace_anywhere_in_any_task(around: str) -> None:
    """Carriage returns, blank lines and line separators, for the other tasks and in evaluation."""
    bodies = {
        Task.rec: ("iou", '{"bbox_2d":\r\n [0, 0,\n100, 100]}', sample(Task.rec, CAT)),
        Task.point: ("point", '{"point_2d": [5,\n5]}', sample(Task.point, CAT)),
        Task.mcq: ("answer", "B", sample(Task.mcq, answer="B")),
        Task.yes_no: ("answer", "yes", sample(Task.yes_no, answer="yes")),
        Task.numeric: ("answer", "3", sample(Task.numeric, answer="3")),
        Task.text: ("answer", "a cat", sample(Task.text, answer="a cat")),
    }
    for task, (option, body, target) in bodies.items():
        think = f"<think>{around}one{around}two {around}</think>"
        text = f"{around}{think}{around}<answer>{around}{body}{around}</answer>{around}"
        graded = grade(rubric(f"reward={option}"), target, text)
        assert set(values(graded).values()) == {1}, task
        assert measured(graded)["format"] == 1, task


BAD_TAGS = (
    "<think>t</think><answer>{}</answer><answer>{}</answer>",
    "<think>t</think><answer>{}</answer>\n<answer></answer>",
    "<think>t</think><think>t</think><answer>{}</answer>",
    "<think>t</think><answer>{}</answer></answer>",
    "<think><think>t</think></think><answer>{}</answer>",
    "<think>t</think><answer><answer>{}</answer></answer>",
    "<answer>{}</answer><think>t</think>",
    "<think>t<answer>{}</answer></think>",
    "<think>t<answer></think>{}</answer>",
    "</think>t<think><answer>{}</answer>",
    "<think>t</think></answer>{}<answer>",
    "<think>maybe <answer>{}</answer></think><answer>{}</answer>",
    "<think>t</think><answer>{}",
    "<think>t</think><ANSWER>{}</ANSWER>",
)


@pytest.mark.parametrize("tags", BAD_TAGS)
def test_b19_repeated_nested_or_swapped_tags_earn_nothing(tags: str) -> None:
    """Two answers, of which the better one is paid, or a format that any pile of tags passes."""
    body = listed(CAT).removeprefix("<think>t</think>\n<answer>").removesuffix("</answer>")
    text = tags.replace("{}", body)
    found = values(graded_by_all(ONE, text))
    assert found["format"] == 0
    assert accuracies(ONE, text) == all_at(0)
    assert measured(graded_by_all(ONE, text))["format"] == 0


@pytest.mark.parametrize("tags", BAD_TAGS)
def test_b19_sibling_other_tasks_and_the_loose_format_refuse_them_too(tags: str) -> None:
    """A task with a parser of its own, or a setting, that lets the same texts through."""
    loose = "reward.terms.format.strict=false"
    one_box = sample(Task.rec, CAT)
    text = tags.replace("{}", '{"bbox_2d": [0, 0, 100, 100]}')
    for words in (["reward=iou"], ["reward=iou", loose], ["reward=giou", loose]):
        found = values(grade(rubric(*words), one_box, text))
        assert found["format"] == 0
        assert found.get("iou", 0) == 0
        assert found.get("giou", -1) == -1
    for task, right in ((Task.yes_no, "yes"), (Task.mcq, "B"), (Task.numeric, "3"), (Task.text, "cat")):
        graded = grade(rubric("reward=answer", loose), sample(task, answer=right), tags.replace("{}", right))
        assert graded.answer.value is None
        assert graded.breakdown.total == 0


EXAMPLE = '<think>look</think><answer>{"bbox_2d": [28, 28, 84, 84]}</answer>'


def asked(question: str) -> Sample:
    box = LabeledBox(xyxy=(28, 28, 84, 84))
    images = (picture((112, 112), 0),)
    return Sample(id="s", task=Task.rec, images=images, truth=Truth(boxes=(box,)), question=question)


def collected(processor: Processor, kind: SingleTurn, turns: Sequence[str], question: str) -> Rollout:
    """One rollout whose turns are scripted."""
    left = iter(turns)
    engine = ScriptedEngine(lambda request, number, index: next(left), processor)
    collector = Collector(engine, processor, PromptConfig().build(), kind)
    sampling = Sampling(temperature=1.0, max_new_tokens=200)
    (rollout,) = collector.collect([asked(question)], 1, sampling, seed=[0])
    return rollout


def test_b20_an_answer_in_the_prompt_is_not_the_models(tiny_policy: Policy) -> None:
    """The tags of an example in the prompt parsed as the answer (Visual-RFT #26)."""
    processor = tiny_policy.processor
    rollout = collected(processor, SingleTurn(), ["I see."], f"red circle, e.g. {EXAMPLE}")
    assert EXAMPLE in processor.decode(rollout.segments[0].prompt_ids)  # the prompt does hold it
    graded = rubric("reward=iou").grade(rollout, asked(""))
    assert rollout.text == "I see."
    assert graded.answer.status is ParseStatus.NO_ANSWER_TAG
    assert values(graded) == {"iou": 0, "format": 0}
    own = collected(processor, SingleTurn(), [EXAMPLE], f"red circle, e.g. {EXAMPLE}")
    assert values(rubric("reward=iou").grade(own, asked(""))) == {"iou": 1, "format": 1}  # and is no repeat


class Told(SingleTurn):
    """Two turns; between them the environment writes a complete answer."""

    max_turns = 2

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def next_turn(self, episode: Episode) -> NextTurn | None:
        if episode.turns == 2:
            return None
        return NextTurn(insertions=(Insertion(ids=self.processor.encode(EXAMPLE), role=Role.OBSERVATION),))


def test_b20_sibling_an_answer_in_an_observation_is_not_the_models(tiny_policy: Policy) -> None:
    """What a tool or a verifier wrote inside the response paid as the policy's answer."""
    processor = tiny_policy.processor
    rollout = collected(processor, Told(processor), ["zoom", "I see."], "red circle")
    assert EXAMPLE in processor.decode(rollout.segments[0].response_ids)  # the response does hold it
    graded = rubric("reward=iou").grade(rollout, asked(""))
    assert values(graded) == {"iou": 0, "format": 0}
    assert measured(graded)["iou"] == 0
    own = collected(processor, Told(processor), ["zoom", EXAMPLE], "red circle")
    assert values(rubric("reward=iou").grade(own, asked(""))) == {"iou": 1, "format": 1}


HALF = '<think>t</think><answer>```json\n[{"bbox_2d": [0, 0, 100, 100], "label": "cat"}, {"bbox_2d": [200, 20'


def test_b21_a_cut_list_is_not_repaired_and_the_cut_is_visible() -> None:
    """A truncated answer silently completed, or read as an empty list."""
    graded = graded_by_all(BOTH, HALF, status=CUT)
    assert (graded.answer.status, graded.answer.truncated) == (ParseStatus.TRUNCATED, True)
    assert accuracies(BOTH, HALF, status=CUT) == all_at(0)
    assert accuracies(NOTHING, HALF, status=CUT) == all_at(0)
    metrics, logged = measured(graded), rollout_metrics([graded])
    assert (metrics["truncated_frac"], metrics["parse/truncated_frac"], metrics["ap"]) == (1, 1, 0)
    assert (logged["rollout/truncated_frac"], logged["parse/truncated_frac"]) == (1, 1)
    record = step_record(1, graded)
    assert (record["status"], record["parse"]) == ("truncated_length", "truncated")


def test_b21_the_other_policy_keeps_the_complete_items_and_counts_the_rest() -> None:
    """`parsing.salvage` is the declared alternative, the same in reward and evaluation."""
    graded = grade(rubric("reward=f1", "reward.parsing.salvage=true"), BOTH, HALF, status=CUT)
    assert graded.answer.status is ParseStatus.SALVAGED
    assert graded.answer.rejected == (RejectReason.INCOMPLETE,)
    assert values(graded) == {"f1": pytest.approx(1 / 2), "format": 0}  # 2 x 1 / (2 + 2)
    metrics = measured(graded)
    assert (metrics["truncated_frac"], metrics["parse/salvaged_frac"], metrics["format"]) == (1, 1, 0)
    # one of two claims right; one of two true boxes found
    assert (metrics["gp50"], metrics["gr50"], metrics["parse/rejected_mean"]) == (0.5, 0.5, 1)


def test_b21_sibling_cut_elsewhere_broken_inside_closed_tags_and_other_tasks() -> None:
    """A cut in the think text or after the answer, a broken list that was not cut, one box, points."""
    for text in ("<think>the cat is", "", "<think>t</think><ans", "<think>t</think><answer>No"):
        for target in (BOTH, NOTHING):
            graded = graded_by_all(target, text, status=CUT)
            assert graded.answer.status is ParseStatus.TRUNCATED, text
            assert accuracies(target, text, status=CUT) == all_at(0), text
    broken = graded_by_all(BOTH, f"{HALF}</answer>")
    assert (broken.answer.status, broken.answer.num_items) == (ParseStatus.BAD_JSON, 0)
    assert measured(broken)["parse/bad_json_frac"] == 1
    # the corner 100 cut to 10: a prefix of a number is not that number
    for option, task, begun in (
        ("iou", Task.rec, '<answer>{"bbox_2d": [0, 0, 100, 10'),
        ("point", Task.point, '<answer>{"point_2d": [5, 5'),
    ):
        for words in ([], ["reward.parsing.salvage=true"]):
            cut = grade(rubric(f"reward={option}", *words), sample(task, CAT), begun, status=CUT)
            assert values(cut) == {option: 0, "format": 0}
            assert cut.answer.status is ParseStatus.TRUNCATED
    late = grade(rubric("reward=iou"), sample(Task.rec, CAT), f"{boxed(0, 0, 100, 100)} and", status=CUT)
    assert (values(late), late.answer.truncated) == ({"iou": 1, "format": 0}, True)
    assert measured(late)["truncated_frac"] == 1


def test_b22_an_answer_that_says_neither_yes_nor_no_is_wrong() -> None:
    """Two texts without yes or no taken for equal."""
    for truth in ("yes", "no"):
        for body in ("maybe", "", "yes or no", "I know", "yesterday", "nothing", "y"):
            graded = grade(rubric("reward=answer"), sample(Task.yes_no, answer=truth), wrap(body))
            assert values(graded)["yes_no"] == 0, body
        right = grade(rubric("reward=answer"), sample(Task.yes_no, answer=truth), wrap(f"{truth.upper()}."))
        assert values(right)["yes_no"] == 1


def test_b22_sibling_nothing_equals_nothing_in_no_other_task() -> None:
    """Letters or numbers found on neither side, and a truth that cannot be read: never 1."""
    for task, truth, name in (
        (Task.numeric, "3", "numeric"),
        (Task.mcq, "B", "mcq"),
        (Task.text, "cat", "exact"),
    ):
        for body in ("", "?", "none", "nan", "inf"):
            graded = grade(rubric("reward=answer"), sample(task, answer=truth), wrap(body))
            assert values(graded)[name] == 0, (task, body)
    for task, truth, body in (
        (Task.yes_no, "maybe", "maybe"),
        (Task.mcq, "A or B", "C or D"),
        (Task.yes_no, "", ""),
        (Task.text, " ", " "),
    ):
        graded = grade(rubric("reward=answer"), sample(task, answer=truth), wrap(body))
        kinds = {name: type(term) for name, term in graded.breakdown.terms.items() if name != "format"}
        assert list(kinds.values()) == [Missing], (task, truth)
        assert graded.breakdown.total is None
    # a true text among numbers is compared as a text
    other = grade(rubric("reward=answer"), sample(Task.numeric, answer="N/A"), wrap("unknown"))
    assert values(other)["numeric"] == 0
    # nothing true and nothing answered is no match of one box either
    assert values(grade(rubric("reward=iou"), sample(Task.rec), wrap("None")))["iou"] == 0
