"""Monitors of hand-written answers."""

import pytest

from groundrl.evaluation.monitors import batch_monitors, monitors, named_in, think_distinct
from groundrl.parsing.answer import parse_rollout
from groundrl.rewards.graded import Graded
from groundrl.rollout.written import written_rollout
from groundrl.training.metrics import rollout_metrics
from groundrl.types import ImageFrame, LabeledBox, RewardBreakdown, Sample, Task, Truth

FRAME = ImageFrame(original=(640, 480), processed=(640, 480))
CAT, NEAR, FAR = [0, 0, 100, 100], [1, 0, 101, 100], [300, 300, 400, 400]


def graded(text, *, task=Task.ovd, truth=("cat",), targets=("cat", "dog"), tokens=10, group=0) -> Graded:
    boxes = tuple(LabeledBox(xyxy=(0, 0, 100, 100), label=label) for label in truth)
    sample = Sample(id="s", task=task, images=(), truth=Truth(boxes=boxes), targets=tuple(targets))
    rollout = written_rollout("s", text, [FRAME], tokens=tokens)
    rollout.group = group
    return Graded(
        sample=sample,
        rollout=rollout,
        answer=parse_rollout(rollout, sample),
        breakdown=RewardBreakdown(task=task, terms={}, weights={}, total=0.0),
    )


def listed(*items, think="a cat") -> str:
    body = ", ".join(f'{{"bbox_2d": {box}, "label": "{label}"}}' for box, label in items)
    return f"<think>{think}</think><answer>[{body}]</answer>"


def values(row, **settings) -> dict[str, float]:
    found = monitors(row.rollout, row.sample, row.answer, **settings)
    assert all(name.startswith("monitor/") for name in found)
    return {name.removeprefix("monitor/"): value for name, value in found.items()}


def test_a_flooding_answer() -> None:
    """Five items, one of them refused (corners swapped): a copy, a target that is not there, a word that
    nobody asked for. One true box."""
    text = listed((CAT, "cat"), (NEAR, "Cat "), (FAR, "dog"), (FAR, "unicorn"), ([9, 9, 1, 1], "cat"))
    assert values(graded(text, tokens=3001)) == {
        "long_frac": 1,
        "items_per_truth": 5,
        "duplicates_frac": 1 / 5,
        "unknown_labels_frac": 1 / 5,
        "absent_boxes": 1,
        "think_words": 2,
        "think_names_present": 1,
    }


def test_an_answer_that_claims_nothing_divides_by_nothing() -> None:
    for text in (listed(), "<think>", "", "[[[", '{"bbox_2d": [1e999, 0, 1, 1]}'):
        found = values(graded(text))
        shares = ("items_per_truth", "duplicates_frac", "unknown_labels_frac", "absent_boxes")
        assert [found[name] for name in shares] == [0, 0, 0, 0]


def test_a_true_label_that_is_not_a_target_is_not_unknown() -> None:
    found = values(graded(listed((CAT, "cat"), (FAR, "horse")), truth=("cat", "Horse"), targets=("cat",)))
    assert (found["unknown_labels_frac"], found["absent_boxes"], found["items_per_truth"]) == (0, 0, 1)


def test_which_tasks_have_which() -> None:
    ovd = set(values(graded(listed((CAT, "cat")))))
    negative = set(values(graded(listed(), truth=())))
    assert negative == ovd - {"items_per_truth"}
    assert set(values(graded(listed(), targets=()))) == ovd - {"think_names_present"}
    rec = values(graded("<think>t</think><answer>[0, 0, 9, 9]</answer>", task=Task.rec))
    assert rec == {"long_frac": 0, "think_words": 1, "items_per_truth": 1}
    assert values(graded("<think>t</think><answer>B</answer>", task=Task.mcq, truth=())) == {
        "long_frac": 0,
        "think_words": 1,
    }


def test_long_is_above_the_limit() -> None:
    text = listed(think="ab cd\n efg")
    assert values(graded(text, tokens=3000))["long_frac"] == 0
    assert values(graded(text, tokens=8), long_above=7)["long_frac"] == 1


def test_words_are_counted_and_tokens_where_the_rollout_knows_them() -> None:
    entry = graded(listed(think="ab cd\n efg"))
    assert values(entry)["think_words"] == 3
    assert "think_tokens" not in values(entry)
    entry.rollout.think_tokens = 7
    assert values(entry)["think_tokens"] == 7


@pytest.mark.parametrize(
    ("think", "expected"),
    [
        ("I see a CAT.", 1),
        ("a cat, not a dog", 0),  # the absent target is named
        ("concatenated", 0),
        ("cats", 0),  # not the whole word
        ("nothing", 0),
        ("", 0),
    ],
)
def test_the_thought_names_exactly_what_is_there(think, expected) -> None:
    assert values(graded(listed(think=think)))["think_names_present"] == expected


def test_naming_on_a_negative_sample_and_without_a_thought() -> None:
    assert values(graded(listed(think="nothing here"), truth=()))["think_names_present"] == 1
    assert values(graded(listed(think="a dog"), truth=()))["think_names_present"] == 0
    assert values(graded("<answer>None</answer>", truth=()))["think_names_present"] == 0


def test_names_are_whole_normalised_and_the_longest_wins() -> None:
    labels = {"dog", "hot dog", "dog house", "café", "c++ (book)"}
    assert named_in("a dog house", labels) == {"dog house"}
    assert named_in("a  HOT\nDog", labels) == {"hot dog"}
    assert named_in("a hot dog and a dog; CAFE\u0301", labels) == {"hot dog", "dog", "café"}
    assert named_in("the C++ (book)!", labels) == {"c++ (book)"}
    assert named_in("dogs, dog_1, underdog, hotdog", labels) == set()
    assert named_in("dog-house", labels) == {"dog"}


def test_distinct_thoughts_are_counted_without_case_and_spacing() -> None:
    """Texts a, a, b and none: three different ones of four."""
    rows = [graded(text) for text in (listed(think="A b"), listed(think=" a\nB "), listed(think="c"), "")]
    shares = think_distinct([row.answer for row in rows])
    assert shares == [0.5, 0.5, 1, 1]
    assert batch_monitors(rows)["monitor/think_distinct"] == 3 / 4
    assert think_distinct([]) == []
    assert batch_monitors([]) == {}


def test_a_batch_averages_each_monitor_over_those_that_have_it() -> None:
    rows = [
        graded(listed((CAT, "cat"), (NEAR, "cat"), (FAR, "cat"))),
        graded(listed((FAR, "dog")), truth=()),
        graded("<answer>B</answer>", task=Task.mcq, truth=(), tokens=4000),
    ]
    found = batch_monitors(rows, long_above=3000)
    assert list(found) == sorted(found)
    assert found["monitor/items_per_truth"] == 3  # the only positive
    assert found["monitor/duplicates_frac"] == pytest.approx((1 / 3 + 0) / 2)
    assert found["monitor/absent_boxes"] == 0.5
    assert found["monitor/long_frac"] == pytest.approx(1 / 3)


def test_every_training_step_logs_them() -> None:
    rows = [graded(listed((CAT, "cat"))), graded(listed((CAT, "cat"), (NEAR, "cat")))]
    logged = rollout_metrics(rows)
    assert logged["monitor/items_per_truth"] == 1.5
    assert logged["monitor/think_distinct"] == 0.5
    assert logged.items() >= batch_monitors(rows).items()


def test_an_endless_run_of_combining_marks_is_not_normalised() -> None:
    found = values(graded(listed(think="a cat " + "a" + "\u0301\u0316" * 1_000_000)))
    assert found["think_names_present"] == 1  # read up to the limit only
