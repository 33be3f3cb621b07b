"""Every option of every group composes, is typed and passes the checks between groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from tests.compose.training_files import training_files

from groundrl.config.compose import compose_run, compose_words
from groundrl.config.entry import typed
from groundrl.config.registry import is_base
from groundrl.config.repo import conf_dir, groups
from groundrl.config.unread import scale_references
from groundrl.data.base import Split

OPTIONS = [(group, option) for group, options in groups().items() for option in options]
DEFAULTS = {str(g): str(o) for g, o in compose_words([], with_hydra=True).hydra.runtime.choices.items()}
OTHERS = [(group, option) for group, option in OPTIONS if DEFAULTS.get(group) != option]
DETECTION = "reward=ap"
ANSWERS = ["reward=answer", "dataset=jsonl", "dataset.path={answers}"]
TALK = ["reward=answer", "dataset.path={talk}"]
FOLDER = "paths.data={benchmarks}"
REGION = ["reward=ap_region", "prompt=ovd_region", FOLDER]
COMPANIONS = {
    "task=ovd": [DETECTION],
    **{f"prompt={name}": [DETECTION] for name in groups()["prompt"] if name.startswith("ovd")},
    **{f"dataset={name}": [DETECTION] for name in groups()["dataset"] if name.startswith("shapes_")},
    "dataset=shapes_rec": [],
    "dataset=shapes_refcoco": [],
    "eval=tiny_ovd": [DETECTION],
    "model=tiny_ovd": [DETECTION],
    "model=hf": ["model.path=weights/any"],
    "dataset=jsonl": ["dataset.path={rows}"],
    "dataset=by_difficulty": ["dataset.file={audit}"],
    **{f"dataset={name}": TALK for name in ("vlm_r1", "llava", "swift", "qa")},
    "dataset=hf": ["reward=answer", "dataset.path={saved}", "dataset.image_key=null"],
    "dataset=coco": [DETECTION, "dataset.path={coco}"],
    "dataset=mixture": ["+dataset@dataset.parts.a=shapes_rec"],
    "dataset=refcoco": ["reward=iou_rec", "dataset.format=json", "dataset.path={expressions}"],
    "dataset=d3": [DETECTION, "dataset.path={descriptions}"],
    "dataset=ovdeval": [DETECTION, "dataset.path={hard_negatives}"],
    "dataset=odinw": [DETECTION, "dataset.path={benchmarks}/odinw"],
    **{f"dataset={name}_train": [DETECTION, FOLDER] for name in ("d3", "coco", "ovdeval")},
    **{f"dataset=coco_{name}": [DETECTION, FOLDER] for name in ("small", "single", "class")},
    "dataset=coco_region": ["eval.metric=greedy/reward/total", *REGION],
    "dataset=coco_od_region": REGION,
    "task=region": ["dataset=coco_region", "eval.metric=greedy/reward/total", *REGION],
    "dataset=refcoco_train": [FOLDER],
    "dataset=superclevr_train": ["reward=answer", FOLDER],
    **{f"experiment={name}": [FOLDER] for name in groups()["experiment"]},
    "algorithm/kl=k3": ["model=qwen3b"],
    "task=point": ["reward=point"],
    "dataset=shapes_point": ["reward=point"],
    "task=numeric": ["reward=answer"],
    "dataset=shapes_numeric": ["reward=answer"],
    "dataset=charts": ["reward=answer", "task=text"],
    "dataset=tables": ["reward=answer", "task=text"],
    **{f"task={task}": ANSWERS for task in ("mcq", "text", "yes_no")},
    "reward=custom": ["reward.path={function}"],
    "+eval/benchmark@eval.benchmarks.extra=own": ["eval.benchmarks.extra.dataset.path={rows}"],
}
"""Words that an option needs beside it, where the defaults do not fit."""

TERMS = {
    **dict.fromkeys(("iou", "format", "giou", "dynamic_iou", "overlong"), ()),
    **dict.fromkeys(("mcq", "yes_no", "numeric", "exact", "all_match", "math"), ("reward=answer",)),
    "point": ("reward=point",),
    "cosine": ("reward=weighted_sum",),
    "custom": ("reward.terms.extra.path={function}",),
}
"""The same for terms; the others are for detection."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user's own data, enough rows for both splits, and a reward function."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("data")
    line = '{{"image": "{0}.png", "question": "thing {0}", "boxes": [[10, 20, 30, 40]]}}'
    (folder / "rows.jsonl").write_text("\n".join(line.format(number) for number in range(60)))
    line = line.replace('"boxes": [[10, 20, 30, 40]]', '"answer": "yes"')
    (folder / "answers.jsonl").write_text("\n".join(line.format(number) for number in range(60)))
    images = [{"id": n, "file_name": f"{n}.png", "width": 112, "height": 112} for n in range(60)]
    for image in images:
        Image.new("RGB", (112, 112)).save(folder / image["file_name"])
    boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 30, 40]} for n in range(60)]
    coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}
    (folder / "coco.json").write_text(json.dumps(coco))
    grounding = grounding_files(folder)
    turns = '[{{"from": "human", "value": "thing {0}"}}, {{"from": "gpt", "value": "3"}}]'
    chat = '[{{"role": "user", "content": "thing {0}"}}]'
    line = f'{{{{"question": "thing {{0}}", "answer": 3, "conversations": {turns}, "messages": {chat}}}}}'
    (folder / "talk.jsonl").write_text("\n".join(line.format(number) for number in range(60)))
    (folder / "own.py").write_text("def fn(rollout, sample, context):\n    return 1.0\n")
    return {
        "rows": str(folder / "rows.jsonl"),
        "answers": str(folder / "answers.jsonl"),
        "coco": str(folder / "coco.json"),
        "talk": str(folder / "talk.jsonl"),
        "saved": saved_table(folder / "saved"),
        "audit": audit_file(folder / "audit.jsonl"),
        "function": str(folder / "own.py:fn"),
        "benchmarks": str(training_files(folder / "benchmarks")),
        **grounding,
    }


def audit_file(file: Path) -> str:
    """An audit of the default data set in which every sample is right once in two."""
    data = compose_run([]).dataset.build(Split.TRAIN).fingerprint()
    lines: list[dict[str, Any]] = [{"audit": {"data": data, "rollouts": 2}}]
    lines += [{"index": n, "id": str(n), "right": 1, "known": 2} for n in range(40)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def saved_table(folder: Path) -> str:
    """Questions as the library `datasets` saves them."""
    from datasets import Dataset

    Dataset.from_list([{"question": f"thing {n}", "answer": n} for n in range(60)]).save_to_disk(str(folder))
    return str(folder)


def grounding_files(folder: Path) -> dict[str, str]:
    """Referring expressions, descriptions, and a sub-set with hard negatives; nothing in 39.png."""
    from PIL import Image

    place = folder / "images" / "color"
    place.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    for number in range(40):
        name = f"{number}.png"
        Image.new("RGB", (64, 64)).save(folder / name)
        Image.new("RGB", (64, 64)).save(place / name)
        texts = {"text": ["a dog"], "neg_text": ["a cat"]}
        images.append({"id": number, "file_name": name, "width": 64, "height": 64} | texts)
    boxes = [
        {"id": n, "image_id": n, "category_id": 0, "iscrowd": 0, "bbox": [1, 2, 30, 40]} for n in range(39)
    ]
    names = [{"id": number, "name": name} for number, name in enumerate(("a dog", "a cat"))]
    whole = {"images": images, "annotations": boxes, "categories": names}
    said = [
        {"image": f"{n}.png", "normal_caption": f"thing {n}", "solution": [1, 2, 30, 40]} for n in range(40)
    ]
    files = {
        "expressions": (folder / "refcoco.json", said),
        "descriptions": (folder / "d3.json", whole),
        "hard_negatives": (folder / "annotations" / "color.json", whole),
    }
    (folder / "annotations").mkdir()
    for file, content in files.values():
        file.write_text(json.dumps(content))
    return {key: str(file) for key, (file, _) in files.items()}


PLACED = {
    "reward/term": "reward.terms.extra",
    "eval/benchmark": "eval.benchmarks.extra",
    "verify": "eval.verify",
}
"""Groups without a default, and where an option of theirs is put."""


def word_of(group: str, option: str) -> str:
    place = PLACED.get(group)
    return f"+{group}@{place}={option}" if place else f"{group}={option}"


def test_the_default_options_together() -> None:
    config, invocation = typed(compose_words([]), [], multirun=False)
    assert invocation.overrides == ()
    assert {group for group, _ in OPTIONS} - set(DEFAULTS) == set(PLACED)
    assert (str(config.task.name), DEFAULTS["task"], DEFAULTS["dataset"]) == ("rec", "rec", "shapes_rec")


@pytest.mark.parametrize(("group", "option"), OTHERS, ids=lambda value: value)
def test_option(group: str, option: str, files: dict[str, str]) -> None:
    word = word_of(group, option)
    needed = COMPANIONS.get(word, [])
    if group == "reward/term":
        needed = TERMS.get(option, [DETECTION])
    elif group in ("eval", "eval/benchmark"):
        needed = ["paths.data={benchmarks}", *needed]
    words = [*(extra.format(**files) for extra in needed), word]
    cfg = compose_words(words)
    config, invocation = typed(cfg, words, multirun=False)
    assert invocation.overrides == tuple(words)
    assert invocation.experiment == (option if group == "experiment" else None)
    if group != "experiment":  # presets change other groups and have no node of their own
        node: Any = config
        for part in PLACED.get(group, group).replace("/", ".").split("."):
            node = node[part] if isinstance(node, dict) else getattr(node, part)
        assert not is_base(type(node))
    assert yaml.safe_load(yaml.safe_dump(invocation.resolved)) == invocation.resolved


def test_no_option_is_left_out_and_none_is_nested_too_deep() -> None:
    files = [path for path in conf_dir().rglob("*.yaml") if path != conf_dir() / "config.yaml"]
    assert len(OPTIONS) == len(files) > 40
    assert all(path.suffix == ".yaml" for path in files)


@pytest.mark.parametrize("path", sorted(conf_dir().rglob("*.yaml")), ids=lambda path: path.stem)
def test_options_name_no_python_target_and_no_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "_target_" not in text
    assert "://" not in text
    assert yaml.safe_load(text)


def test_each_scale_value_is_taken_up_by_some_run() -> None:
    """A scale value that no option refers to would be dead."""
    read: set[str] = set()
    scale = compose_words([]).scale
    for reward in ("iou_rec", "ws_cosine", "answer", "point"):
        for algorithm in ("grpo", "sft"):
            read |= scale_references(compose_words([f"reward={reward}", f"algorithm={algorithm}"]))
    leaves = set(_leaves(OmegaConf.to_container(scale), "scale"))
    assert leaves == read
    assert len(leaves) > 40


def _leaves(node: object, prefix: str) -> list[str]:
    if not isinstance(node, dict):
        return [prefix]
    return [leaf for key, value in node.items() for leaf in _leaves(value, f"{prefix}.{key}")]
