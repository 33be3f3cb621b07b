"""The records that travel: a sample, what a policy made of it, and what that was worth.

Nothing here imports torch: a reward is tested with a hand-written `Rollout` and no model.
Boxes are xyxy, half open, in float pixels of the *original* image unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

Size = tuple[int, int]
"""(width, height) in pixels."""

XYXY = tuple[float, float, float, float]
"""(x1, y1, x2, y2)."""


class Task(StrEnum):
    """What a sample asks for; routes it to prompts, parsers, reward terms and metrics."""

    rec = "rec"
    ovd = "ovd"
    point = "point"
    region_label = "region_label"
    mcq = "mcq"
    numeric = "numeric"
    yes_no = "yes_no"
    text = "text"


class CoordinateSpace(StrEnum):
    """The space in which a model family writes boxes."""

    PIXEL_ORIGINAL = "pixel_original"
    PIXEL_RESIZED = "pixel_resized"
    REL1000 = "rel1000"


class LabeledBox(NamedTuple):
    """A box in original pixels, with the index of the image it lies on.

    A named tuple because one is made for every box of every completion: a frozen dataclass takes thrice the
    time.
    """

    xyxy: XYXY
    label: str = ""
    image: int = 0


class LabeledPoint(NamedTuple):
    """A point in original pixels, with the index of the image it lies on."""

    xy: tuple[float, float]
    label: str = ""
    image: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Ground truth of a sample; which fields count depends on its task."""

    boxes: tuple[LabeledBox, ...] = ()
    answer: str | None = None
    evidence: tuple[LabeledBox, ...] = ()


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """Stands for `Sample.images[index]` inside a message."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat turn; parts keep the order in which text and images were written."""

    role: str
    parts: tuple[TextPart | ImagePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question with its truth.

    `question` is the referring expression (rec) or the question itself; `targets` are the category names
    asked for (ovd), negatives included. `messages` is set by data that comes as a conversation; when it is
    empty the prompt group renders `question` and `targets`.
    """

    id: str
    task: Task
    images: tuple[Image, ...]
    truth: Truth
    question: str = ""
    targets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    split: str = "train"
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFrame:
    """The two sizes of one image that boxes are converted between."""

    original: Size
    processed: Size


class Role(IntEnum):
    """What part a response token plays. Losses select roles.

    PROMPT       words of the environment, as the user's: a request to verify, to think again
    STUDENT      sampled, and learned from
    INJECTED     put in place of what the policy wrote
    OBSERVATION  what a tool showed
    VERIFY       sampled as a verdict on the policy's own answer; not learned from
    TEMPLATE     of the chat template
    DRAFT        sampled as an answer that was taken back; not learned from
    """

    PROMPT = 0
    STUDENT = 1
    INJECTED = 2
    OBSERVATION = 3
    VERIFY = 4
    TEMPLATE = 5
    DRAFT = 6


class RolloutStatus(StrEnum):
    """How a rollout ended. Failures are kinds that are counted, never silence.

    truncated_length   a turn reached its token limit
    truncated_turns    the kind of rollout wanted more turns than it allows
    truncated_context  the next turn would not have fitted into the context; nothing of it was inserted
    """

    FINISHED = "finished"
    TRUNCATED_LENGTH = "truncated_length"
    TRUNCATED_TURNS = "truncated_turns"
    TRUNCATED_CONTEXT = "truncated_context"
    ERROR_PARSE = "error_parse"
    ERROR_TOOL = "error_tool"
    ERROR_ENGINE = "error_engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedImage:
    """An image after the one resize that engine, learner and reward share.

    `patches` is the image processor's flattened patch matrix, float32 [n_patches, patch_dim];
    `grid_thw` counts patches in time, height and width. `pixels` is the picture before the resize, uint8
    [height, width, 3], where it cannot be made of the patches again (tiles with a thumbnail).
    """

    patches: NDArray[np.float32]
    grid_thw: tuple[int, int, int]
    frame: ImageFrame
    pixels: NDArray[np.uint8] | None = None


@dataclass(slots=True, kw_only=True)
class Segment:
    """One training row: a prompt and the tokens that followed it.

    prompt_ids          int64 [P], image placeholders already expanded to one id per image token
    images              the images of the prompt and the response, in order of their placeholders
    response_ids        int64 [R], exactly the ids that were sampled or inserted; never re-tokenised
    roles               int8  [R], a `Role` per response token
    behaviour_logprobs  float32 [R], log-prob under the sampling distribution; nan where not sampled
    """

    prompt_ids: NDArray[np.int64]
    images: tuple[PreparedImage, ...]
    response_ids: NDArray[np.int64]
    roles: NDArray[np.int8]
    behaviour_logprobs: NDArray[np.float32]
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One turn that was sampled: in which role, its text without special tokens, its length in tokens."""

    role: Role
    text: str
    tokens: int


@dataclass(slots=True, kw_only=True)
class Rollout:
    """What the policy did with one sample.

    `group` numbers the prompt inside the batch, `index` the completion inside its group. `text` is the
    decoded last turn that is no verdict, special tokens dropped: what parsers, rewards and metrics read.
    `turns` were sampled; where they are several, or one was a verdict, `said` holds each.
    `frames` are the sizes of the sample's images, in order. An append-only conversation has one segment; a
    conversation whose context was rewritten has one segment a turn. `think_tokens` is the length of the final
    turn's think text under the policy's tokeniser; None where it was not counted.
    """

    sample_id: str
    group: int
    index: int
    segments: list[Segment]
    status: RolloutStatus
    text: str
    frames: tuple[ImageFrame, ...]
    coordinate_space: CoordinateSpace = CoordinateSpace.PIXEL_ORIGINAL
    seed: int = 0
    turns: int = 1
    said: tuple[Said, ...] = ()
    think_tokens: int | None = None

    @property
    def num_student_tokens(self) -> int:
        """Sampled tokens over all segments."""
        return sum(int((segment.roles == Role.STUDENT).sum()) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Scored:
    """The value of one reward term, with the numbers that explain it."""

    value: float
    detail: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Missing:
    """A term that could not be computed (a judge that never answered). Masked and counted, never 0."""

    reason: str


@dataclass(slots=True, kw_only=True)
class RewardBreakdown:
    """Named terms, weights and total of one rollout, so that a total can be explained.

    `total` is None when a term is missing: the rollout then takes no part in its group's statistics and
    gets no gradient.
    """

    task: Task
    terms: dict[str, Scored | Missing]
    weights: dict[str, float]
    total: float | None
    parse_status: str = ""
