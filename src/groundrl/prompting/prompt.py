"""Turns a sample into chat messages: which words ask the question, and where they stand.

Prompt wording is an experimental condition (blog 2025-03-24, section 5): every variant is an option of the
`prompt` group and its strings live in that option's YAML.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.types import ImagePart, Message, Sample, Task, TextPart


class Provenance(StrEnum):
    """Whether the wording is the published one or was written afresh; marks the cells of a table."""

    published = "published"
    rewritten = "rewritten"


class SuffixPlace(StrEnum):
    after = "after"
    before = "before"
    system = "system"


@register("prompt", "template")
@dataclass(kw_only=True, slots=True)
class PromptConfig:
    """A question template with a format instruction.

    template      text of the question; `{question}` and `{targets}` are replaced by the sample's
    separator     put between target names
    suffix        instruction on thinking and answering
    suffix_place  after or before the question, or in the system role
    system        system message (empty: none of ours; the chat template may add its own)
    provenance    published or rewritten wording
    """

    template: str = "{question}"
    separator: str = "; "
    suffix: str = ""
    suffix_place: SuffixPlace = SuffixPlace.after
    system: str = ""
    provenance: Provenance = Provenance.rewritten

    def __post_init__(self) -> None:
        if "{question}" not in self.template and "{targets}" not in self.template:
            raise ConfigError(
                "template",
                "holds neither {question} nor {targets}, so every sample would ask the same",
                got=self.template,
                todo="add one of them",
            )

    def build(self) -> Prompt:
        return Prompt(self)


class Prompt:
    """Renders samples as messages, images first."""

    def __init__(self, config: PromptConfig) -> None:
        self.config = config

    def check_tasks(self, tasks: frozenset[Task]) -> None:
        """Refuse a prompt that does not show what a task's samples ask for."""
        for task in sorted(tasks):
            needed = "{targets}" if task is Task.ovd else "{question}"
            if needed not in self.config.template:
                raise ConfigError(
                    "prompt.template",
                    f"has no {needed}, which samples of task {task} need",
                    got=self.config.template,
                    todo=f"choose a prompt for {task} (prompt={task})",
                )

    def messages(self, sample: Sample) -> tuple[Message, ...]:
        """The sample's own conversation if it has one, else the template filled in."""
        if sample.messages:
            return sample.messages
        config = self.config
        text = config.template.replace("{targets}", config.separator.join(sample.targets))
        text = text.replace("{question}", sample.question)
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
