"""1 for an answer in the asked form, else 0.

The form is a think pair, then an answer pair, each exactly once, with nothing but whitespace around them
(line breaks anywhere, a trailing one included), and inside the answer what the task asks for:
    rec   one valid box
    ovd   at least one valid box in a single json fence, or "None" (fenced or not)
    else  some text
VLM-R1 (section 3.2) states the fence for detection; its released patterns check neither the fence nor that
the tags occur once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groundrl.config.registry import register
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.rewards.base import ScoreContext, TermConfig
from groundrl.types import Rollout, Sample, Scored, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """See the module; detail: `tags` and `body`, each 1 if that half of the form is kept."""

    tasks: ClassVar[frozenset[Task]] = frozenset(Task)
    needs: ClassVar[tuple[str, ...]] = ()

    json_fence: bool = True
    require_thought: bool = False

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        answer = context.answer
        tags = answer.strict and (bool(answer.think) or not self.require_thought)
        body = self._body(answer, sample.task)
        return Scored(float(tags and body), {"tags": float(tags), "body": float(body)})

    def _body(self, answer: Answer, task: Task) -> bool:
        if task is Task.ovd:
            fence = answer.fenced or not self.json_fence
            return answer.status is ParseStatus.NONE or (answer.status is ParseStatus.OK and fence)
        return answer.status is ParseStatus.OK


@register("reward/term", "format")
@dataclass(kw_only=True, slots=True)
class FormatConfig(TermConfig):
    """`json_fence`: detection answers must be fenced; `require_thought`: an empty think block fails."""

    json_fence: bool = True
    require_thought: bool = False

    def build(self) -> Format:
        return Format(json_fence=self.json_fence, require_thought=self.require_thought)
