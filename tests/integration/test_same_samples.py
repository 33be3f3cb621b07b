"""One world as COCO files and as VLM-R1 JSONL: the same samples, asked with the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from scripts.coco_to_vlm_r1 import main as to_vlm_r1
from scripts.shapes_to_coco import main as to_coco

from groundrl.config.compose import compose_run
from groundrl.data.base import Split
from groundrl.errors import ConfigError, DataError
from groundrl.prompting.lint import check_prompts
from groundrl.types import ImagePart, LabeledBox, Message, Sample, Task

if TYPE_CHECKING:
    from groundrl.models.load import Policy
    from groundrl.run_config import RunConfig

COUNTS = {Split.TRAIN: 9, Split.HELDOUT: 6}
"""Samples of a split; the last is an image in which nothing is."""
PROMPTS = ("ovd", "ovd_no_think", "ovd_enhanced_first", "ovd_enhanced_system", "ovd_standard", "ovd_zh")


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated files with a box off the pixel grid and an empty image added to each."""
    folder = tmp_path_factory.mktemp("same") / "coco"
    world = ("dataset.objects=[1,3]", "dataset.seed=5", "dataset.none_fraction=0")
    assert to_coco([str(folder), "--samples", "8", "--heldout", "5", *world]) == 0
    for split in Split:
        file = folder / f"instances_{split}.json"
        whole = json.loads(file.read_text("utf-8"))
        whole["annotations"][0]["bbox"] = [1.25, 2.5, 30.1, 40.7]
        whole["images"].append({"id": 99, "file_name": f"{split}/empty.png", "width": 64, "height": 48})
        Image.new("RGB", (64, 48), (1, 2, 3)).save(folder / split / "empty.png")
        file.write_text(json.dumps(whole), encoding="utf-8")
    return folder


def coco_words(coco: Path, *more: str) -> list[str]:
    files = [
        f"dataset.path={coco}/instances_train.json",
        f"dataset.heldout_path={coco}/instances_heldout.json",
    ]
    return ["reward=odlength", "dataset=coco", "dataset.mode=positive", *files, *more]


def vlm_r1_words(folder: Path, images: Path, *more: str) -> list[str]:
    files = [f"dataset.path={folder}/train.jsonl", f"dataset.heldout_path={folder}/heldout.jsonl"]
    return ["reward=odlength", "dataset=vlm_r1", *files, f"dataset.images={images}", *more]


def split_of(config: RunConfig, split: Split) -> list[Sample]:
    source = config.dataset.build(split)
    return [source.sample(index) for index in range(source.size or 0)]


def shown(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Role and text of each message, NUL for an image."""
    return [
        (one.role, "".join("\0" if isinstance(part, ImagePart) else part.text for part in one.parts))
        for one in messages
    ]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_both_forms_give_the_same_samples(
    coco: Path, tmp_path: Path, prompt: str, loaded_policy: Policy
) -> None:
    asked = [f"prompt={prompt}"]
    ours = compose_run(coco_words(coco, "dataset.negatives=[1,2]", *asked))
    assert to_vlm_r1([str(tmp_path), *coco_words(coco, "dataset.negatives=[1,2]", *asked)]) == 0
    theirs = compose_run(vlm_r1_words(tmp_path, coco, *asked))
    for split, count in COUNTS.items():
        first, second = split_of(ours, split), split_of(theirs, split)
        assert len(first) == len(second) == count
        assert first[-1].truth.boxes == ()
        assert first[0].truth.boxes[0].xyxy == (1.25, 2.5, 31.35, 43.2)  # 1.25 + 30.1, 2.5 + 40.7
        for left, right in zip(first, second, strict=True):
            assert right.id == f"{split}:{left.id}"
            assert (left.task, left.truth, left.split) == (right.task, right.truth, right.split)
            assert [image.tobytes() for image in left.images] == [image.tobytes() for image in right.images]
            messages = [
                config.prompt.build().messages(one) for config, one in ((ours, left), (theirs, right))
            ]
            assert shown(messages[0]) == shown(messages[1])
            assert all(target in shown(messages[1])[-1][1] for target in left.targets)
            images = [loaded_policy.processor.prepare(image) for image in left.images]
            ids = [loaded_policy.processor.render(one, images).tolist() for one in messages]
            assert ids[0] == ids[1]


def test_a_row_as_it_is_written(coco: Path, tmp_path: Path) -> None:
    """The question without the instruction, the labels that are there, None where nothing is."""
    words = [
        'prompt.template="Find {targets}."',
        "prompt.suffix=Think.",
        "prompt.system=S",
        "dataset.negatives=[1,1]",
    ]
    assert to_vlm_r1([str(tmp_path), *coco_words(coco, *words)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text("utf-8").splitlines()]
    empty = rows[-1]
    assert (empty["id"], empty["image"]) == ("instances_train:99", ["train/empty.png"])
    assert empty["accu_reward_method"] == "odLength"
    human, reply = empty["conversations"]
    assert human["from"] == "human"
    assert human["value"].startswith("<image>Find ")
    assert human["value"].endswith(".")
    assert reply == {"from": "gpt", "value": "None"}
    body = rows[0]["conversations"][1]["value"]
    assert body.startswith('```json\n[{"bbox_2d": [1.25, 2.5, 31.35, 43.2], "label": "')


def test_the_prompts_of_both_have_no_defect(coco: Path, tmp_path: Path) -> None:
    assert to_vlm_r1([str(tmp_path), *coco_words(coco, "dataset.negatives=[1,1]")]) == 0
    config = compose_run(vlm_r1_words(tmp_path, coco))
    assert check_prompts(config.prompt.build(), split_of(config, Split.TRAIN)) == []


def test_referring_expressions_and_answers(coco: Path, tmp_path: Path) -> None:
    """One row each: the box of an expression, and the letter of the mcq form of a COCO file."""
    row = {"image": "train/empty.png", "normal_caption": "the dot", "solution": [1, 2, 30.5, 40]}
    (coco / "rec.json").write_text(json.dumps([row]))
    path = f"{coco}/rec.json"
    words = ["reward=iou_rec", "dataset=refcoco", "dataset.format=json", f"dataset.path={path}"]
    assert to_vlm_r1([str(tmp_path / "rec"), *words, f"dataset.heldout_path={path}"]) == 0
    reading = vlm_r1_words(tmp_path / "rec", coco)
    (sample,) = split_of(compose_run(["reward=iou_rec", *reading[1:]]), Split.TRAIN)
    assert (sample.task, sample.truth.boxes) == (Task.rec, (LabeledBox((1.0, 2.0, 30.5, 40.0)),))
    assert "the dot" in sample.question

    words = [word for word in coco_words(coco) if "mode" not in word and "reward" not in word]
    words = ["reward=answer", "task=mcq", *words]
    assert to_vlm_r1([str(tmp_path / "mcq"), *words]) == 0
    left = split_of(compose_run(words), Split.HELDOUT)
    right = split_of(
        compose_run(["reward=answer", "task=mcq", *vlm_r1_words(tmp_path / "mcq", coco)[1:]]), Split.HELDOUT
    )
    assert [one.truth.answer for one in left] == [one.truth.answer for one in right]
    assert {one.task for one in right} == {Task.mcq}


def test_what_the_form_cannot_hold_is_refused(coco: Path, tmp_path: Path) -> None:
    def convert(*words: str) -> Any:
        return to_vlm_r1([str(tmp_path), *words])

    with pytest.raises(ConfigError, match="dataset: is not read from one file"):
        convert("reward=ap", "dataset=shapes_ovd")
    with pytest.raises(DataError, match=r"instances_train.json, row 1: .*its question holds <image>"):
        convert(*coco_words(coco, 'prompt.template="In <image> find {targets}"'))
