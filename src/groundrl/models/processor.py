"""From messages and images to token ids and patches: the one path that engine, learner and reward share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from groundrl.errors import DataError
from groundrl.models.family import Family
from groundrl.types import ImageFrame, ImagePart, Message, PreparedImage

TURN = "\u241etold\u241e"
"""Stands for an assistant's turn while the chat template is asked what follows one."""


class Processor:
    """A tokenizer and an image processor of one model family.

    Images are resized once, here; the sizes before and after travel with the patches, so that boxes are
    converted with what the model really saw. `context_length` is the most tokens that the model takes (None:
    not known).
    """

    def __init__(
        self, tokenizer: Any, image_processor: Any, family: Family, *, context_length: int | None = None
    ) -> None:
        self.context_length = context_length
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.family = family
        self.pad_id = int(tokenizer.pad_token_id)
        self.eos_ids = frozenset({int(tokenizer.eos_token_id), self.pad_id})
        self.image_id = int(tokenizer.convert_tokens_to_ids(family.image_token))
        self.banned_ids = tuple(int(tokenizer.convert_tokens_to_ids(text)) for text in family.vision_tokens)
        added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special = sorted(added | set(tokenizer.all_special_tokens) | set(family.vision_tokens))

    def prepare(self, image: Image) -> PreparedImage:
        """Resize and patchify one RGB image. Raises DataError for a shape that the family cannot take."""
        try:
            made = self.image_processor(images=[image], return_tensors="np")
        except ValueError as error:
            size = f"{image.size[0]} x {image.size[1]} pixels"
            raise DataError("image", f"{size}: {error}", todo="crop or drop it") from None
        patch = self.family.patch_size
        if self.family.tiled:
            tiles = made["pixel_values"]
            side = int(tiles.shape[-1])
            return PreparedImage(
                patches=np.ascontiguousarray(tiles.reshape(len(tiles), -1), dtype=np.float32),
                grid_thw=(len(tiles), side // patch, side // patch),
                frame=ImageFrame(original=image.size, processed=(side, side)),
                pixels=np.asarray(image, dtype=np.uint8),
            )
        grid = tuple(int(v) for v in made["image_grid_thw"][0])
        return PreparedImage(
            patches=np.ascontiguousarray(made["pixel_values"], dtype=np.float32),
            grid_thw=(grid[0], grid[1], grid[2]),
            frame=ImageFrame(original=image.size, processed=(grid[2] * patch, grid[1] * patch)),
        )

    def render(self, messages: Sequence[Message], images: Sequence[PreparedImage]) -> NDArray[np.int64]:
        """Prompt ids [P] up to where the assistant begins, each image as one id per image token.

        Raises DataError for text that spells a special token, in one part or across neighbouring parts (a
        data row must not be able to end its own turn or place an image), and for messages that do not
        place every image once, in order (the features fill the placeholders in the order of `images`).
        """
        content, order = self._content(messages)
        if order != list(range(len(images))):
            raise DataError(
                "prompt",
                f"messages place the images {order}, the sample has {len(images)}",
                todo="place every image once, in order",
            )
        text = self.tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)
        return self._ids(text, images)

    def reply(
        self, message: Message, images: Sequence[PreparedImage] = (), *, ended: bool = True
    ) -> NDArray[np.int64]:
        """Ids between a sampled turn of the assistant and its next one: `message`, as the template writes it.

        ended: whether the turn's own end token was sampled; else it is added. Only what follows the turn is
        taken from the template, so it does not matter how the template would write that turn once it stands
        in the past (some drop its think block). Raises as `render`, and DataError for a template that does
        not end a turn with an end token.
        """
        content, order = self._content((message,))
        if order != list(range(len(images))):
            raise DataError("prompt", f"a turn places the images {order}, it brings {len(images)}")
        before = [
            {"role": "user", "content": [{"type": "text", "text": "?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": TURN}]},
        ]
        text = self.tokenizer.apply_chat_template(
            [*before, *content], tokenize=False, add_generation_prompt=True
        )
        tail = text.rpartition(TURN)[2]
        end = next((token for token in self._ends() if tail.startswith(token)), None)
        if TURN not in text or end is None:
            raise DataError(
                "prompt",
                f"the chat template follows an assistant's turn with {tail[:40]!r}, which is no end token",
                todo="use a model whose template does, or a rollout of one turn",
            )
        return self._ids(tail.removeprefix(end) if ended else tail, images)

    def _ends(self) -> list[str]:
        """The texts of the end tokens."""
        return [self.tokenizer.convert_ids_to_tokens(number) for number in sorted(self.eos_ids)]

    def _content(self, messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[int]]:
        """Messages in the template's form, and the images they place, in order."""
        content: list[dict[str, Any]] = []
        order: list[int] = []
        for message in messages:
            parts: list[dict[str, str]] = []
            written = ""
            for part in message.parts:
                if isinstance(part, ImagePart):
                    order.append(part.index)
                    parts.append({"type": "image"})
                    written += "\0"
                    continue
                parts.append({"type": "text", "text": part.text})
                written += part.text
            for token in self._special:
                if token in written:
                    raise DataError(
                        "prompt", f"text holds the special token {token}", todo="remove it from the data"
                    )
            content.append({"role": message.role, "content": parts})
        return content, order

    def _ids(self, text: str, images: Sequence[PreparedImage]) -> NDArray[np.int64]:
        token = self.family.image_token
        text = text.replace(token, f"{self.family.image_start}{token}{self.family.image_end}")
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        counts = [self.family.image_tokens(image.grid_thw) for image in images]
        return _expand(np.asarray(ids, dtype=np.int64), self.image_id, counts)

    def decode(self, ids: NDArray[np.int64] | Sequence[int]) -> str:
        """The text of sampled ids, special tokens dropped."""
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

    def encode(self, text: str) -> NDArray[np.int64]:
        """Ids of plain text (used for supervised targets and injected turns)."""
        return np.asarray(self.tokenizer.encode(text, add_special_tokens=False), dtype=np.int64)


def _expand(ids: NDArray[np.int64], image_id: int, counts: list[int]) -> NDArray[np.int64]:
    places = np.flatnonzero(ids == image_id)
    if len(places) != len(counts):
        raise DataError(
            "prompt",
            f"the chat template placed {len(places)} images for {len(counts)} image parts",
            todo="use a chat template that writes one placeholder per image",
        )
    repeats = np.ones(len(ids), dtype=np.int64)
    repeats[places] = counts
    return np.repeat(ids, repeats)
