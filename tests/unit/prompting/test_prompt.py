"""The exact text of the prompts: shipped checkpoints were trained on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from groundrl.config.compose import compose_run
from groundrl.config.repo import groups
from groundrl.errors import ConfigError
from groundrl.prompting.prompt import Conversations, ListStyle, PromptConfig, SuffixPlace
from groundrl.types import ImagePart, Message, Sample, Task, TextPart, Truth

EXAMPLE = (
    '```json\n[{"bbox_2d": [x1, y1, x2, y2], "label": "target name"}, '
    '{"bbox_2d": [x1, y1, x2, y2], "label": "target name"}]\n```'
)
DETECT = (
    "Please carefully observe the image and detect the following targets: red dog; cat. "
    "Output each detected targets' bbox coordinates in JSON format. "
    f"The format of the bbox coordinates is: {EXAMPLE}. "
    "If there are no such targets in the image, simply respond with None."
)
REFER = "Give the bounding box of the region that this phrase describes: the dog."
THINK = "First think in <think> </think> tags, then answer"
STANDARD = (
    "Write the thinking process inside <think> </think> tags and the final answer inside "
    "<answer> </answer> tags."
)
ENHANCED = (
    "First reason in your mind about the solution, then give the user the answer. Enclose the reasoning in "
    "<think> </think> tags and the answer in <answer> </answer> tags, like this: "
    "<think> reasoning goes here </think><answer> answer goes here </answer>"
)
STANDARD_ZH = "将思考过程输出在 <think> </think> 标签内，最终答案输出在 <answer> </answer> 标签内。"
DETECT_ZH = (
    "请仔细检查图像并检测以下对象：['red dog', 'cat']。以 JSON 格式输出检测到对象的 bbox 坐标。"
    'bbox 坐标的 Markdown 格式应为：```json [{"bbox_2d": [x1, y1, x2, y2], "label": "对象名称"}] ``` '
    "如果图像中未检测到任何目标，则简单回复“None”。"
)
SYSTEM = "\n(system) "

TEXTS = {
    "ovd": f"{DETECT} {THINK} in <answer> </answer> tags.",
    "rec": f"{REFER} {THINK} in <answer> </answer> tags as JSON.",
    "point": "Point to the place in the image that this phrase describes: the dog. "
    f'{THINK} in <answer> </answer> tags as JSON: {{"point_2d": [x, y]}}.',
    "numeric": f"the dog {THINK} with one number in <answer> </answer> tags.",
    "mcq": f"the dog {THINK} with the letter of one option in <answer> </answer> tags.",
    "yes_no": f"the dog {THINK} with yes or no in <answer> </answer> tags.",
    "text": f"the dog {THINK} in <answer> </answer> tags.",
    "ovd_region": f"{DETECT} {THINK} in <answer> </answer> tags.",
    "ovd_standard": f"{DETECT} {STANDARD}",
    "ovd_standard_missing_space": f"{DETECT} {STANDARD}".replace("cat. Output", "cat.Output"),
    "ovd_enhanced": f"{DETECT} {ENHANCED}",
    "ovd_enhanced_first": f"{ENHANCED}\n{DETECT}",
    "ovd_enhanced_system": f"{DETECT}{SYSTEM}{ENHANCED}",
    "ovd_no_think": f"{DETECT} Answer in <answer> </answer> tags.",
    "ovd_zh": f"{DETECT_ZH} {STANDARD_ZH}",
    "rec_standard": f"{REFER} {STANDARD} Write the answer as JSON.",
    "rec_enhanced": f"{REFER} Write the answer as JSON. {ENHANCED}",
    "rec_no_think": f"{REFER} Answer in <answer> </answer> tags as JSON.",
    "rec_zh": "请给出图像中以下短语所描述区域的边界框：the dog。"
    f'答案使用 JSON 格式：{{"bbox_2d": [x1, y1, x2, y2]}}。 {STANDARD_ZH}',
    "enhanced": f"the dog {ENHANCED}",
}


def ask(question: str = "", targets: tuple[str, ...] = (), images: int = 0, **more) -> Sample:
    pictures = tuple(Image.new("RGB", (28, 28)) for _ in range(images))
    task = Task.ovd if targets else Task.rec
    values = {"id": "s", "task": task, "images": pictures, "truth": Truth(), **more}
    return Sample(question=question, targets=targets, **values)


def said(config: PromptConfig, sample: Sample) -> str:
    """The user's text, then that of the system role."""
    *system, user = config.build().messages(sample)
    texts = [part.text for part in user.parts if isinstance(part, TextPart)]
    texts += [f"{SYSTEM}{part.text}" for message in system for part in message.parts]
    return "".join(texts)


def test_no_option_is_left_out_of_the_table() -> None:
    assert set(TEXTS) == set(groups()["prompt"])


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_each_option(name: str) -> None:
    sample = ask(targets=("red dog", "cat")) if name.startswith("ovd") else ask("the dog")
    assert said(compose_run([f"prompt={name}"]).prompt, sample) == TEXTS[name]


def test_only_wholly_published_wording_is_marked_so() -> None:
    marked = {name for name in TEXTS if compose_run([f"prompt={name}"]).prompt.provenance == "published"}
    assert marked == {"ovd_zh"}


@pytest.mark.parametrize(
    ("targets", "listed"),
    [
        (("cat",), "['cat']"),
        (("a b", "人"), "['a b', '人']"),
        (("dog's",), '["dog\'s"]'),  # as Python writes it: the other quotes
        ((), "[]"),
    ],
)
def test_python_lists(targets: tuple[str, ...], listed: str) -> None:
    config = PromptConfig(template="{targets}", list_style=ListStyle.python)
    assert said(config, ask(targets=targets)) == listed


def test_words_of_a_sample_are_not_taken_for_fields() -> None:
    config = PromptConfig(template="{targets} | {question}")
    assert said(config, ask("{targets}", ("{question}", r"\1"))) == r"{question}; \1 | {targets}"


def test_images_stand_first_and_in_order() -> None:
    (message,) = PromptConfig().build().messages(ask("Which?", images=2))
    assert message == Message(role="user", parts=(ImagePart(0), ImagePart(1), TextPart("Which?")))


def test_a_conversation_keeps_its_order_and_its_words() -> None:
    parts = (TextPart("Compare "), ImagePart(0), TextPart(" with "), ImagePart(1))
    messages = (Message(role="user", parts=parts),)
    sample = ask("unused", images=2, messages=messages)
    config = compose_run(["prompt=rec_enhanced", "prompt.conversations=as_is"]).prompt
    assert config.build().messages(sample) == messages
    config = compose_run(["prompt=rec_enhanced"]).prompt
    (message,) = config.build().messages(sample)
    assert message.parts == (*parts, TextPart(f" {config.suffix}"))


def test_own_system_message_stands_before_the_instruction() -> None:
    config = PromptConfig(system="Be brief.", suffix="Think.", suffix_place=SuffixPlace.system)
    assert said(config, ask("Why?")) == f"Why?{SYSTEM}Be brief.\nThink."


@pytest.mark.parametrize("task", ["mcq", "numeric", "yes_no", "text"])
def test_the_enhanced_instruction_serves_any_question(task: str) -> None:
    config = compose_run(
        [f"task={task}", "dataset=jsonl", "dataset.path=x", "prompt=enhanced", "prompt.suffix_place=before"]
    ).prompt
    config.build().check_tasks(frozenset({Task(task)}))
    assert said(config, ask("How many?")) == f"{ENHANCED}\nHow many?"


@pytest.mark.parametrize(("name", "task"), [("rec_enhanced", Task.ovd), ("ovd_zh", Task.rec)])
def test_a_prompt_that_hides_what_is_asked_is_refused(name: str, task: Task) -> None:
    prompt = compose_run([f"prompt={name}"]).prompt.build()
    with pytest.raises(ConfigError, match="has no") as error:
        prompt.check_tasks(frozenset({task}))
    assert error.value.key == "prompt.template"


def test_another_task_may_have_a_template_of_its_own() -> None:
    config = compose_run(["prompt=ovd_region"]).prompt
    config.build().check_tasks(frozenset({Task.ovd, Task.mcq}))
    choice = replace(ask("Which?\nA. cat\nB. dog"), task=Task.mcq)
    assert said(config, choice) == (
        f"Which?\nA. cat\nB. dog\nAnswer with the letter of one option. {config.suffix}"
    )
    plain = compose_run(["prompt=ovd"]).prompt
    several = Sample(id="o", task=Task.ovd, images=(), truth=Truth(), targets=("a cat", "a dog"))
    assert said(config, several) == said(plain, several)
    with pytest.raises(ConfigError, match=r"has no \{question\}") as error:
        compose_run(["prompt=ovd_region", "prompt.templates.mcq='{targets}'"]).prompt.build().check_tasks(
            frozenset({Task.mcq})
        )
    assert error.value.key == "prompt.templates.mcq"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["prompt.list_style=python"], "prompt.list_style"),
        (["prompt=ovd_zh", "prompt.separator=x"], "prompt.separator"),
        (["prompt.known_defects=[tags_inside]"], "prompt.known_defects"),
        (["prompt.template=Look."], "prompt.template"),
        (["+prompt.templates.mcq=Look."], "prompt.templates.mcq"),
    ],
)
def test_settings_without_effect_are_refused(words: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_run(words)
    assert error.value.key == key


def talk(*turns: tuple[str, str]) -> Sample:
    messages = tuple(Message(role=role, parts=(TextPart(text),)) for role, text in turns)
    return Sample(id="c", task=Task.text, images=(), truth=Truth(answer="x"), messages=messages)


def turns_of(config: PromptConfig, sample: Sample) -> list[tuple[str, str]]:
    return [
        (message.role, "".join(part.text for part in message.parts if isinstance(part, TextPart)))
        for message in config.build().messages(sample)
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [("user", "a"), ("assistant", "b"), ("user", "c think!")]),
        ({"suffix_place": SuffixPlace.before}, [("user", "a"), ("assistant", "b"), ("user", "think!\nc")]),
        (
            {"suffix_place": SuffixPlace.system},
            [("system", "think!"), ("user", "a"), ("assistant", "b"), ("user", "c")],
        ),
        ({"conversations": Conversations.as_is}, [("user", "a"), ("assistant", "b"), ("user", "c")]),
        (
            {"system": "be short"},
            [("system", "be short"), ("user", "a"), ("assistant", "b"), ("user", "c think!")],
        ),
    ],
)
def test_a_conversation_gets_the_instruction_in_its_last_question(settings, expected) -> None:
    sample = talk(("user", "a"), ("assistant", "b"), ("user", "c"))
    assert turns_of(PromptConfig(suffix="think!", **settings), sample) == expected


def test_a_conversation_keeps_its_own_system_message() -> None:
    sample = talk(("system", "own"), ("user", "a"))
    assert turns_of(PromptConfig(suffix="think!", system="ours"), sample) == [
        ("system", "own"),
        ("user", "a think!"),
    ]
    config = PromptConfig(suffix="think!", suffix_place=SuffixPlace.system)
    assert turns_of(config, sample) == [("system", "own\nthink!"), ("user", "a")]
