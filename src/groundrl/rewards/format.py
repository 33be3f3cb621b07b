"""1 for an answer in the asked form, else 0.

A think pair, then an answer pair, each exactly once. `strict` allows nothing but whitespace around them (line
breaks anywhere, a trailing one included); otherwise any text may stand around and between them. Form
`think_answer` asks for no more; form `task` also for what the task wants inside the answer:
    rec    one valid box
    ovd    at least one valid box in a single json fence, or "None" (fenced or not)
    point  at least one valid point
    else   an answer that can be read
VLM-R1 (section 3.2) states the fence for detection.

Deviations of `paper` from the released code, all of which `released_code` takes back. For rec the released
code searches: a think block, an answer block, braces in it around four bracketed unsigned integers; the rest
of the text is free. For all else it takes any think block and answer block that fill the whole text:
repeated tags and an empty answer pass, a trailing line break fails, and no fence is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.parsing.answer import Answer, ParseStatus
from groundrl.parsing.tags import scan_tags
from groundrl.rewards.base import Compat, ScoreContext, TermConfig
from groundrl.rewards.released import matches_format
from groundrl.types import Rollout, Sample, Scored, Task


class Form(StrEnum):
    """What is asked of the inside of the answer: what the task wants, or nothing."""

    task = "task"
    think_answer = "think_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """See the module. detail: `tags` and `body`, each 1 if that half is kept; none with `released_code`."""

    tasks = frozenset(Task)
    needs = ()

    form: Form = Form.task
    strict: bool = True
    json_fence: bool = True
    require_thought: bool = False
    compat: Compat = Compat.paper

    def score(self, rollout: Rollout, sample: Sample, context: ScoreContext) -> Scored:
        if self.compat is Compat.released_code:
            boxed = sample.task is Task.rec and self.form is Form.task
            return Scored(float(matches_format(rollout.text, boxed=boxed)))
        answer = context.answer
        tags = answer.strict if self.strict else self._paired(rollout.text)
        tags = tags and (bool(answer.think) or not self.require_thought)
        body = self.form is Form.think_answer or self._body(answer, sample.task)
        return Scored(float(tags and body), {"tags": float(tags), "body": float(body)})

    def _paired(self, text: str) -> bool:
        tags = scan_tags(text)
        return tags.think is not None and tags.answer is not None

    def _body(self, answer: Answer, task: Task) -> bool:
        if answer.status is ParseStatus.NONE:
            return task is Task.ovd
        return answer.readable and (answer.fenced or not self.json_fence or task is not Task.ovd)


@register("reward/term", "format")
@dataclass(kw_only=True, slots=True)
class FormatConfig(TermConfig):
    """form             `task`: also what the task wants inside the answer; `think_answer`: the tags alone
    strict           false: text around and between the two pairs is allowed
    json_fence       form `task`: detection answers must be fenced
    require_thought  an empty think block fails
    compat           `released_code`: the released patterns; they have no `strict`, `json_fence` or
                     `require_thought`, and with form `think_answer` rec takes the pattern of all else
    """

    form: Form = Form.task
    strict: bool = True
    json_fence: bool = True
    require_thought: bool = False
    compat: Compat = Compat.paper

    def __post_init__(self) -> None:
        TermConfig.__post_init__(self)
        if self.compat is Compat.released_code:
            self._refuse_paper_only()

    def _refuse_paper_only(self) -> None:
        settings = {
            "strict": (self.strict, True),
            "json_fence": (self.json_fence, True),
            "require_thought": (self.require_thought, False),
        }
        for name, (value, default) in settings.items():
            if value is not default:
                problem = "has no meaning with compat=released_code"
                raise ConfigError(name, problem, got=value, todo=f"leave it {str(default).lower()}")

    def build(self) -> Format:
        return Format(
            form=self.form,
            strict=self.strict,
            json_fence=self.json_fence,
            require_thought=self.require_thought,
            compat=self.compat,
        )
