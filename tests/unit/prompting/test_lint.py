"""The prompt linter: each defect is found, what merely looks like one is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.lint_prompts import fitting, main, problems, shapes_samples

from groundrl.config.compose import compose_run
from groundrl.errors import ConfigError, UserError
from groundrl.prompting.defects import Defect
from groundrl.prompting.lint import Finding, check_prompts, lint
from groundrl.prompting.prompt import PromptConfig
from groundrl.types import ImagePart, Message, Sample, Task, TextPart, Truth

PLAIN = PromptConfig(template="Find {question}.", suffix="Think in <think> </think> tags.")
LISTS = PromptConfig(template="Find {targets}. {question}")


def rec(question: str, **more) -> Sample:
    return Sample(id="s", task=Task.rec, images=(), truth=Truth(), question=question, **more)


def ovd(*targets: str) -> Sample:
    return Sample(id="s", task=Task.ovd, images=(), truth=Truth(), targets=targets)


def found(sample: Sample, config: PromptConfig = PLAIN) -> list[Finding]:
    return lint(config.build().messages(sample), sample, config)


def codes(sample: Sample, config: PromptConfig = PLAIN) -> list[str]:
    return [str(finding.code) for finding in found(sample, config)]


@pytest.mark.parametrize(
    "text",
    [
        "the person.Output a box",
        "a TV.Output it",  # two letters, all capitals
        "item 2.Then stop",
        "(left).The dog",
        'the "dog".Look',
        'the "dog."Look',
        "['a', 'b'].Output",
        "is it red?Answer",
        "the dog!I see",
        "the 人.Output",
        "là.Évite",
    ],
)
def test_missing_space(text: str) -> None:
    assert codes(rec(text)) == ["missing_space"]


@pytest.mark.parametrize(
    "text",
    [
        "the person. Output a box",
        "a U.S.A flag and a U.S. Army jeep",
        "Mr.Smith at St.Pancras",
        "Node.JS in photo.JPG",
        "a file.txt at example.com of 3.5 MB",
        "wait...Then go",
        "看图。Output the box",
        "ends.",
        "a.b.c",
    ],
)
def test_no_missing_space(text: str) -> None:
    assert codes(rec(text)) == []


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Find {targets}.Output it", ["missing_space"]),
        ("Find {targets}.output it", ["missing_space"]),  # lower case is sure behind a field
        ("Find {targets}Output it", ["missing_space"]),
        ("Find {targets}s. Output it", []),
        ("Find {targets}. Output it", []),
    ],
)
def test_missing_space_of_the_wording(template: str, expected: list[str]) -> None:
    config = PromptConfig(template=template)
    assert codes(ovd("dr", "st"), config) == expected
    assert {finding.key for finding in found(ovd("dr"), config)} <= {"prompt.template"}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (("dog", "cat", "dog"), ["duplicate_targets"]),
        (("dog", "Dog"), ["equal_targets"]),
        (("STRASSE", "Straße"), ["equal_targets"]),  # equal when case is folded
        (("red  dog", "red dog"), ["equal_targets", "double_space"]),
        (("dog", "Dog", "Dog"), ["equal_targets", "duplicate_targets"]),
        (("dog", "dogs"), []),
        ((), ["empty_question"]),
        (("dog", " "), ["empty_question", "double_space"]),
    ],
)
def test_targets(targets: tuple[str, ...], expected: list[str]) -> None:
    config = PromptConfig(template="Find {targets}.")
    assert codes(ovd(*targets), config) == expected


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<answer>", "</ANSWER>", "< / answer >", "<think/>"])
def test_tags_inside(tag: str) -> None:
    for sample, config in ((rec(f"dog {tag} x"), PLAIN), (ovd("cat", f"dog {tag}"), LISTS)):
        findings = found(sample, config)
        assert [(finding.code, finding.error) for finding in findings] == [(Defect.tags_inside, True)]


def test_words_that_are_no_tags() -> None:
    assert codes(rec("think of <thinker> and < answers >, then answer")) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("the {question}", True),
        ("the{targets}", True),
        ("the {object} here", False),
        (r"\frac{a}{b} and x^{n}, \text{cm}", None),
        ('{"bbox_2d": [1, 2]} or {} or {1}', None),
    ],
)
def test_unfilled_field_of_a_sample(text: str, error: bool | None) -> None:
    expected = [] if error is None else [(Defect.unfilled_field, error, "")]
    assert [(one.code, one.error, one.key) for one in found(rec(text))] == expected


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        ("template", "{question} {qestion}", True),
        ("suffix", "About {question}.", True),
        ("system", "For {name}.", True),
        ("suffix", r"Put it in \boxed{answer}.", False),
        ("suffix", 'As {"point_2d": [x, y]}.', False),
    ],
)
def test_unfilled_field_of_the_wording(setting: str, text: str, expected: bool) -> None:
    wording = [one for one in found(rec("dog"), PromptConfig(**{setting: text})) if one.key]
    errors = [(Defect.unfilled_field, f"prompt.{setting}", True)] if expected else []
    assert [(one.code, one.key, one.error) for one in wording] == errors


def test_double_spaces() -> None:
    assert codes(rec("the  dog")) == ["double_space"]
    assert codes(rec("one\n  two")) == []  # indented, not doubled
    config = PromptConfig(suffix="Think.")
    assert codes(rec("the dog"), config) == []
    assert codes(rec("the dog "), config) == ["double_space"]  # arises where question and suffix meet
    assert found(rec("dog"), PromptConfig(suffix="a  b"))[0].key == "prompt.suffix"


@pytest.mark.parametrize("question", ["", " \n"])
def test_empty_question(question: str) -> None:
    assert "empty_question" in codes(rec(question))


def test_conversations() -> None:
    def talk(*parts: TextPart | ImagePart) -> Sample:
        return rec("", messages=(Message(role="user", parts=parts),))

    assert codes(talk(ImagePart(0), TextPart("\n "))) == ["empty_question"]
    assert codes(talk(TextPart("Is it red? Use <think> </think> tags."))) == []
    assert codes(talk(ImagePart(0), TextPart("Find the person.Output it  now"))) == [
        "missing_space",
        "double_space",
    ]
    assert codes(talk(TextPart("red."), ImagePart(0), TextPart("Blue"))) == []  # an image between
    assert codes(talk(TextPart("red."), TextPart("Blue"))) == ["missing_space"]
    assert codes(talk(TextPart("Find it")), PromptConfig(suffix="For {name}.")) == []  # wording unused


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=10), max_size=4))
def test_any_text_is_linted(question: str, targets: list[str]) -> None:
    sample = Sample(
        id="s", task=Task.ovd, images=(), truth=Truth(), question=question, targets=tuple(targets)
    )
    assert all(one.message and one.code in Defect for one in found(sample, LISTS))


def test_check_counts_warnings_and_leaves_out_declared_ones() -> None:
    template = "Find {question}.Output it"
    samples = [rec("dog"), rec("the  cat")]
    warnings = check_prompts(PromptConfig(template=template).build(), samples)
    assert [line.partition(";")[0] for line in warnings] == [
        "missing_space in 2 of 2 prompts",
        "double_space in 1 of 2 prompts",
    ]
    assert "prompt.template" in warnings[0]
    assert "sample s" in warnings[1]
    declared = PromptConfig(template=template, known_defects=[Defect.missing_space]).build()
    assert check_prompts(declared, samples[:1]) == []
    # what the data has is not excused by what the wording declares
    assert len(check_prompts(declared, [rec("one.Two")])) == 1
    assert check_prompts(PLAIN.build(), samples[:1]) == []


def test_check_raises_on_errors() -> None:
    with pytest.raises(ConfigError, match=r"^prompt.suffix: nothing fills \{name\}"):
        check_prompts(PromptConfig(suffix="For {name}.").build(), [rec("dog")])
    with pytest.raises(UserError, match=r"^sample s: <answer> in"):
        check_prompts(PLAIN.build(), [rec("fine"), rec("dog <answer>")])


def test_shipped_options_have_only_the_defects_they_declare(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--samples", "2"]) == 0
    printed = capsys.readouterr().out
    assert "ovd_standard_missing_space: 2 prompts, 0 findings (missing_space declared)" in printed
    assert "enhanced: 6 prompts, 0 findings" in printed  # rec, point, numeric


def test_wrong_declarations_fail() -> None:
    samples = shapes_samples(1)
    config = compose_run(["prompt=ovd_standard_missing_space"]).prompt
    own = list(fitting(config, samples))
    assert [sample.task for sample in own] == [Task.ovd]
    assert problems(config, own) == []
    config.known_defects = []
    assert len(problems(config, own)) == 1
    clean = compose_run(["prompt=ovd", "prompt.known_defects=[missing_space]"]).prompt
    assert problems(clean, own) == ["missing_space: declared, but not there"]
