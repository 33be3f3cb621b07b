"""What `show_prompt` prints: the prompt as the model reads it."""

from __future__ import annotations

import numpy as np
import pytest
from scripts.show_prompt import collapsed, describe, main, processor_of
from tests.tiny import picture

from groundrl.config.compose import compose_run
from groundrl.prompting.prompt import PromptConfig
from groundrl.types import Sample, Task, Truth


def test_images_are_collapsed_and_counted() -> None:
    processor = processor_of(compose_run([]).model)
    # an image token covers 28 x 28 pixels: 4 x 4 = 16 and 2 x 3 = 6 tokens
    images = (picture((112, 112), 0), picture((56, 84), 1))
    sample = Sample(id="two", task=Task.text, images=images, truth=Truth(), question="Which  one?")
    head, text, *rest = describe(sample, PromptConfig(suffix="Think.").build(), processor)
    assert "22 of them of 2 images" in head
    marks = "<|vision_start|><image x16><|vision_end|><|vision_start|><image x6><|vision_end|>"
    assert f"<|im_start|>user\n{marks}Which  one? Think.<|im_end|>\n<|im_start|>assistant" in text
    assert rest == ["-- double_space: sample: 2 spaces in 'Which  one?'"]


def test_neighbouring_images_stay_apart() -> None:
    processor = processor_of(compose_run([]).model)
    images = [processor.prepare(picture((112, 112), 0)), processor.prepare(picture((56, 84), 1))]
    ids = np.asarray([processor.image_id] * 22 + list(processor.encode("red")))
    assert collapsed(ids, images, processor) == "<image x16><image x6>red"


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--samples", "2", "dataset=shapes_ovd", "prompt=ovd_standard_missing_space"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("<image x16>") == 2
    assert printed.count("-- missing_space (declared): prompt.template:") == 2
