"""Prints what the model reads: the chat template filled in, image tokens counted, and what the linter finds.

make show-prompt OVERRIDES="reward=ap prompt=ovd_enhanced" N=2
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from groundrl.config.compose import compose_run
from groundrl.config.entry import guard
from groundrl.config.words import quoted
from groundrl.data.base import Split
from groundrl.models.config import ModelConfig
from groundrl.models.family import family_of
from groundrl.models.load import check_folder, load_processor
from groundrl.models.processor import Processor
from groundrl.prompting.lint import is_declared, lint
from groundrl.prompting.prompt import Prompt
from groundrl.types import PreparedImage, Sample


def collapsed(ids: NDArray[np.int64], images: Sequence[PreparedImage], processor: Processor) -> str:
    """The text of prompt ids [P], special tokens kept, the tokens of each image as `<image xN>`."""
    pieces: list[str] = []
    start = 0
    sizes = [processor.family.image_tokens(image.grid_thw) for image in images]
    for size in sizes:
        begin = start + int(np.argmax(ids[start:] == processor.image_id))
        pieces += [processor.tokenizer.decode(ids[start:begin].tolist()), f"<image x{size}>"]
        start = begin + size
    return "".join([*pieces, processor.tokenizer.decode(ids[start:].tolist())])


def describe(sample: Sample, prompt: Prompt, processor: Processor) -> Iterator[str]:
    """The lines printed about one sample."""
    messages = prompt.messages(sample)
    images = [processor.prepare(image) for image in sample.images]
    ids = processor.render(messages, images)
    seen = int((ids == processor.image_id).sum())
    yield f"== {sample.id} ({sample.task}): {len(ids)} tokens, {seen} of them of {len(images)} images =="
    yield collapsed(ids, images, processor)
    for finding in lint(messages, sample, prompt.config):
        meant = " (declared)" if is_declared(finding, prompt.config) else ""
        yield f"-- {finding.code}{meant}: {finding.key or 'sample'}: {finding.message}"


def processor_of(config: ModelConfig) -> Processor:
    """The processor of a checkpoint, without its weights. Raises ConfigError where a file is missing."""
    folder = check_folder(config.path, "model.path")
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    return load_processor(folder, family_of(settings.get("model_type", ""), str(folder)), config)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="print prompts as the model reads them")
    parser.add_argument("words", nargs="*", help="settings, as train.py takes them")
    parser.add_argument("--samples", type=int, default=3, metavar="N")
    options = parser.parse_args(words)
    config = compose_run([quoted(word) for word in options.words])
    source = config.dataset.build(Split.TRAIN)
    prompt = config.prompt.build(config.rollout.instruction())
    prompt.check_tasks(source.tasks())
    processor = processor_of(config.model)
    for index in range(min(options.samples, source.size or options.samples)):
        print("\n".join(describe(source.sample(index), prompt, processor)))
    return 0


if __name__ == "__main__":
    sys.exit(guard(main, sys.argv[1:]))
