"""Turns a sample into chat messages: which words ask the question, and where they stand.

Prompt wording is an experimental condition (blog 2025-03-24, section 5): every variant is an option of the
`prompt` group and its strings live in that option's YAML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.prompting.defects import WORDING, Defect
from groundrl.types import ImagePart, Message, Sample, Task, TextPart

_FIELD = re.compile(r"\{(question|targets)\}")


class Provenance(StrEnum):
    """Whether the wording is the published one or was written afresh; marks the cells of a table.

    published only where every sentence stands word for word in a source.
    """

    published = "published"
    rewritten = "rewritten"


class SuffixPlace(StrEnum):
    after = "after"
    before = "before"
    system = "system"


class Conversations(StrEnum):
    """What becomes of a conversation that the data brings: it gets the instruction and the system message of
    the prompt, or stays as it is (it holds its own instruction)."""

    with_suffix = "with_suffix"
    as_is = "as_is"


class ListStyle(StrEnum):
    """How target names are listed: `a; b`, or as Python writes a list of strings: `['a', 'b']`.

    Both occur in the blog of 2025-03-24: the first in section 5.1, the second in section 4.1, part 3.
    """

    semicolons = "semicolons"
    python = "python"


@register("prompt", "template")
@dataclass(kw_only=True, slots=True)
class PromptConfig:
    """A question template with a format instruction.

    template       text of the question; `{question}` and `{targets}` are replaced by the sample's
    templates      by task, the text of those that `template` does not ask, for data of several tasks
    list_style     how target names are listed
    separator      put between target names in the list style `semicolons`
    suffix         instruction on thinking and answering
    suffix_place   after the question (behind a space), before it (on an own line, behind images that stand in
                   front), or in the system role
    system         system message (empty: none of ours; the chat template may add its own)
    conversations  whether suffix and system are added to conversations that the data brings; the suffix goes
                   to their last user turn, and a system message of their own is kept
    provenance     published or rewritten wording
    known_defects  defects of the wording that are meant: the linter does not report them
    """

    template: str = "{question}"
    templates: dict[Task, str] = field(default_factory=dict[Task, str])
    list_style: ListStyle = ListStyle.semicolons
    separator: str = "; "
    suffix: str = ""
    suffix_place: SuffixPlace = SuffixPlace.after
    system: str = ""
    conversations: Conversations = Conversations.with_suffix
    provenance: Provenance = Provenance.rewritten
    known_defects: list[Defect] = field(default_factory=list[Defect])

    def __post_init__(self) -> None:
        named = {"template": self.template} | {
            f"templates.{task}": one for task, one in self.templates.items()
        }
        for key, text in named.items():
            if "{question}" not in text and "{targets}" not in text:
                raise ConfigError(
                    key,
                    "holds neither {question} nor {targets}, so every sample would ask the same",
                    got=text,
                    todo="add one of them",
                )
        if self.list_style is ListStyle.python:
            if not self.lists_targets():
                problem = "would be ignored: the template has no {targets}"
                raise ConfigError("list_style", problem, got=str(self.list_style), todo="remove it")
            if self.separator != "; ":
                problem = "would be ignored: list_style is python"
                raise ConfigError("separator", problem, got=self.separator, todo="remove one of them")
        for defect in self.known_defects:
            if defect not in WORDING:
                raise ConfigError(
                    "known_defects",
                    "is not a defect that wording can have on purpose",
                    got=str(defect),
                    todo=f"use {', '.join(WORDING)}",
                )

    def lists_targets(self) -> bool:
        """Whether some task is asked with a list of names."""
        return any("{targets}" in text for text in (self.template, *self.templates.values()))

    def build(self, instruction: str = "") -> Prompt:
        return Prompt(self, instruction)


class Prompt:
    """Renders samples as messages, images first. `instruction` ends the last turn of the user."""

    def __init__(self, config: PromptConfig, instruction: str = "") -> None:
        self.config = config
        self.instruction = instruction

    def check_tasks(self, tasks: frozenset[Task]) -> None:
        """Refuse a prompt that does not show what a task's samples ask for."""
        for task in sorted(tasks):
            needed = "{targets}" if task is Task.ovd else "{question}"
            text = self._template(task)
            if needed not in text:
                own = f"templates.{task}" if task in self.config.templates else "template"
                raise ConfigError(
                    f"prompt.{own}",
                    f"has no {needed}, which samples of task {task} need",
                    got=text,
                    todo=f"choose a prompt for {task} (prompt={task})",
                )

    def _template(self, task: Task) -> str:
        return self.config.templates.get(task, self.config.template)

    def messages(self, sample: Sample) -> tuple[Message, ...]:
        """The sample's own conversation if it has one, else the template filled in."""
        messages = list(self._asked(sample))
        asked = [place for place, message in enumerate(messages) if message.role == "user"]
        if self.instruction and asked:
            last = messages[asked[-1]]
            messages[asked[-1]] = replace(last, parts=(*last.parts, TextPart(f" {self.instruction}")))
        return tuple(messages)

    def _asked(self, sample: Sample) -> tuple[Message, ...]:
        config = self.config
        if sample.messages:
            return sample.messages if config.conversations is Conversations.as_is else self._added(sample)
        values = {"question": sample.question, "targets": self._listed(sample.targets)}
        text = _FIELD.sub(lambda match: values[match[1]], self._template(sample.task))
        system = config.system
        if config.suffix_place is SuffixPlace.system:
            system = f"{system}\n{config.suffix}" if system else config.suffix
        elif config.suffix and config.suffix_place is SuffixPlace.before:
            text = f"{config.suffix}\n{text}"
        elif config.suffix:
            text = f"{text} {config.suffix}"
        images = tuple(ImagePart(index) for index in range(len(sample.images)))
        user = Message(role="user", parts=(*images, TextPart(text)))
        if not system:
            return (user,)
        return Message(role="system", parts=(TextPart(system),)), user

    def _added(self, sample: Sample) -> tuple[Message, ...]:
        """The sample's own conversation with the suffix and the system message of the prompt."""
        config = self.config
        messages = list(sample.messages)
        system = config.system
        asked = [place for place, message in enumerate(messages) if message.role == "user"]
        if config.suffix and config.suffix_place is SuffixPlace.system:
            system = f"{system}\n{config.suffix}" if system else config.suffix
        elif config.suffix and asked:
            parts = messages[asked[-1]].parts
            if config.suffix_place is SuffixPlace.before:
                texts = next((n for n, one in enumerate(parts) if isinstance(one, TextPart)), len(parts))
                parts = (*parts[:texts], TextPart(f"{config.suffix}\n"), *parts[texts:])
            else:
                parts = (*parts, TextPart(f" {config.suffix}"))
            messages[asked[-1]] = replace(messages[asked[-1]], parts=parts)
        if system and messages[0].role == "system":
            first = messages[0].parts
            if config.suffix_place is SuffixPlace.system and config.suffix:
                messages[0] = replace(messages[0], parts=(*first, TextPart(f"\n{config.suffix}")))
        elif system:
            messages.insert(0, Message(role="system", parts=(TextPart(system),)))
        return tuple(messages)

    def _listed(self, targets: tuple[str, ...]) -> str:
        if self.config.list_style is ListStyle.python:
            return repr(list(targets))
        return self.config.separator.join(targets)
