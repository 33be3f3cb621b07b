"""The report as a whole: what it shows, what it survives, and what it refuses to run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from groundrl.errors import RunFolderError
from groundrl.reporting.__main__ import main
from groundrl.reporting.report import render, write_report

ATTACKS = [
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre></style></title><iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "\ud800\x00\u202e]]><!--",
]


class Page(HTMLParser):
    """Elements with their attributes and all visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._raw = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._raw = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def words(page: Page) -> str:
    return " ".join(page.text.split())


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        change(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_whole_run(run_dir: Path) -> None:
    path = write_report(run_dir)
    assert path == run_dir / "report.html"
    page = Page(path.read_text(encoding="utf-8"))
    shown = words(page)
    assert "What is missing" not in shown
    for part in (
        "iou-s3 finished",
        "python train.py experiment=shapes_grpo reward=iou scale=tiny seed=3",
        "Commit4f1c09be6a",
        "Before and after",
        "The same held-out images over training",
        "Training groups",
        "Reward and its terms",
        "Answers that could not be read",
        "Time per step by stage",
        "greedy/acc50",
        "clean parent",
        "Other metrics learner/rows",
    ):
        assert part in shown
    assert len(page.named("img")) == 2 + 2, "one image a held-out sample and one a training group"
    assert len([svg for svg in page.named("svg") if svg.get("role") == "img"]) > 20


def test_boxes_are_drawn_where_the_record_says(run_dir: Path) -> None:
    record = json.loads((run_dir / "gallery.jsonl").read_text().splitlines()[0])
    page = Page(render(run_dir))
    x1, y1, x2, y2 = record["truth"][0]["bbox"]
    wanted = {"class": "truth", "x": f"{x1}", "y": f"{y1}", "width": f"{x2 - x1}", "height": f"{y2 - y1}"}
    assert wanted in page.named("rect")


def test_the_reward_is_shown_as_an_equation(run_dir: Path) -> None:
    terms = {
        "iou": {"value": 0.52, "weight": 1.0, "detail": {"matched": 3}},
        "format": {"value": 1.0, "weight": 0.2},
    }

    def change(record: dict[str, Any]) -> None:
        for rollout in record["rollouts"]:
            rollout["reward"] = {"total": 0.72, "terms": terms}

    edit(run_dir / "gallery.jsonl", change)
    shown = words(Page(render(run_dir))).replace("\xa0", " ")
    assert "total 0.72 = 1.0 × iou 0.52 + 0.2 × format 1.0 iou: matched 3.0" in shown
    assert "the terms sum to" not in shown


def test_text_of_the_model_cannot_become_markup(run_dir: Path) -> None:
    clean = Page(render(run_dir))
    attack = " ".join(ATTACKS)

    def change(record: dict[str, Any]) -> None:
        record["question"] = attack if record["question"] else ""
        record["targets"] = [attack for _ in record["targets"]]
        record["sample_id"] += attack
        record["task"] = attack
        for box in record["truth"]:
            box["label"] = attack
        for rollout in record["rollouts"]:
            rollout |= {
                "text": attack + rollout["text"],
                "think": attack,
                "rejected": [attack],
                "kind": attack,
            }
            rollout |= {"status": attack, "parse_status": attack}
            for box in rollout["boxes"]:
                box["label"] = attack
            terms = rollout["reward"]["terms"]
            rollout["reward"]["terms"] = {attack: {**terms["iou"], "detail": {attack: 1.0}}, **terms}

    edit(run_dir / "gallery.jsonl", change)

    def rename(record: dict[str, Any]) -> None:
        record["metrics"] = {f"{name}{attack}": value for name, value in record["metrics"].items()}
        record["metrics"] |= {f"reward/{attack.replace('/', '')}": 0.5, f"time/{attack}": 0.5}

    edit(run_dir / "metrics.jsonl", rename)
    result = json.loads((run_dir / "result.json").read_text())
    result["status"] = attack
    result["run"] |= {"command": attack, "model": attack, attack: attack}
    result["eval"]["after"][attack] = 0.5
    (run_dir / "result.json").write_text(json.dumps(result))
    (run_dir / "config.yaml").write_text(json.dumps({"a": attack}))

    page = Page(write_report(run_dir).read_text(encoding="utf-8"))
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in clean.elements}
    assert len(page.named("script")) == 1
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "</script><img src=x onerror=alert(1)>" in page.text, "it is there to be read"
    assert "{{ 7 * 7 }}" in page.text
    assert all(attributes["src"].startswith("data:image/") for attributes in page.named("img"))


def test_nothing_is_fetched_and_only_our_script_may_run(run_dir: Path) -> None:
    html = render(run_dir)
    page = Page(html)
    policy = next(meta["content"] for meta in page.named("meta") if meta.get("http-equiv"))
    sources = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert sources["default-src"] == "'none'"
    assert sources["img-src"] == "data:"
    for name, directive in (("script", "script-src"), ("style", "style-src")):
        found = re.search(rf"<{name}>(.*?)</{name}>", html, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert sources[directive] == f"'sha256-{digest}'"
    assert not re.search(r"(https?:)?//[a-z]+\.[a-z]", html)
    assert not [attributes for _, attributes in page.elements if "style" in attributes]


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("metrics.jsonl", "metrics.jsonl is missing: there are no curves."),
        ("gallery.jsonl", "gallery.jsonl is missing: there are no images to look at."),
        ("result.json", "result.json is missing: the run has not ended, or it was killed."),
        ("config.yaml", "config.yaml is missing: the settings of the run are not shown."),
    ],
)
def test_a_missing_file_is_named(run_dir: Path, name: str, note: str) -> None:
    (run_dir / name).unlink()
    assert note in words(Page(render(run_dir)))


@pytest.mark.parametrize("name", ["metrics.jsonl", "gallery.jsonl", "result.json"])
def test_a_file_cut_anywhere_still_gives_a_report(run_dir: Path, name: str) -> None:
    content = (run_dir / name).read_bytes()
    for share in (0.0, 0.1, 0.5, 0.99):
        (run_dir / name).write_bytes(content[: int(len(content) * share)])
        assert "What is missing" in words(Page(render(run_dir)))


def test_lines_that_were_left_out_are_counted(run_dir: Path) -> None:
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"step": 13, "kin')
    with (run_dir / "gallery.jsonl").open("a") as file:
        file.write("x\ny\n")
    shown = words(Page(render(run_dir)))
    assert "metrics.jsonl: left out 1 line that could not be read." in shown
    assert "gallery.jsonl: left out 2 lines that could not be read." in shown


def test_an_empty_folder_gives_a_report(tmp_path: Path) -> None:
    assert words(Page(render(tmp_path))).count("is missing:") == 4


def test_a_running_run_compares_its_evaluations(run_dir: Path) -> None:
    (run_dir / "result.json").unlink()
    shown = words(Page(render(run_dir)))
    assert "not finished" in shown
    assert "Evaluations at step 0 and step 12; differences without an interval." in shown


@pytest.mark.parametrize(
    "line",
    [
        "null", "[]", "{}", '{"step": 1}', '{"step": "x", "sample_id": "a"}', '{"step": 1, "sample_id": "a"}',
        '{"step": 1, "sample_id": "a", "phase": "eval", "rollouts": 3, "truth": {}, "size": ["a", null]}',
        '{"step": 1, "sample_id": "a", "phase": "eval", "rollouts": [null, 1], "size": [0, -1]}',
        '{"step": 1, "sample_id": "a", "phase": "train", "rollouts": [{"boxes": [{"bbox": [1, 2]}, 3], '
        '"reward": {"total": "x", "terms": {"iou": 1}}}], "truth": [{"bbox": [1e400, 0, 1, 1]}]}',
        '{"step": 1e400, "sample_id": "a"}', '{"step": 1, "kind": "train", "metrics": {"reward/total": "x"}}',
        '{"step": 1, "kind": "eval", "metrics": {"a": {"value": "x"}, "b": [], "c": {}}}',
    ],
)  # fmt: skip
def test_records_of_the_wrong_shape_are_survived(run_dir: Path, line: str) -> None:
    for name in ("metrics.jsonl", "gallery.jsonl"):
        with (run_dir / name).open("a") as file:
            file.write(line + "\n")
    assert "The same held-out images over training" in words(Page(render(run_dir)))
    for name in ("metrics.jsonl", "gallery.jsonl"):
        (run_dir / name).write_text(line + "\n")
    render(run_dir)


@pytest.mark.parametrize(
    "content", ["[]", "3", "null", '{"eval": 3, "run": [], "steps": "x"}', '{"eval": {"after": 3}}']
)
def test_a_result_of_the_wrong_shape_is_survived(run_dir: Path, content: str) -> None:
    (run_dir / "result.json").write_text(content)
    assert "Reward and its terms" in words(Page(render(run_dir)))


def test_a_config_that_is_no_yaml_is_named(run_dir: Path) -> None:
    (run_dir / "config.yaml").write_text("a: [1, 2\nb: !!python/object:os.system {}")
    assert "config.yaml could not be read." in words(Page(render(run_dir)))


def test_secrets_of_the_config_are_not_shown(run_dir: Path) -> None:
    html = render(run_dir)
    assert "wandb-0123456789" in (run_dir / "config.yaml").read_text()
    assert "wandb-0123456789" not in html
    assert "learning_rate" in html


def test_an_image_outside_the_run_folder_is_not_read(run_dir: Path, tmp_path: Path) -> None:
    source = next((run_dir / "images").iterdir())
    outside = tmp_path / "outside.png"
    outside.write_bytes(source.read_bytes())

    for path in ("../../outside.png", str(outside), "images", "", "images/none.png", "result.json"):
        edit(run_dir / "gallery.jsonl", lambda record, path=path: record.update(image=path))
        page = Page(render(run_dir))
        assert page.named("img") == []
        assert "is missing or is no image" in words(page)


def test_a_long_answer_is_cut(run_dir: Path) -> None:
    edit(run_dir / "gallery.jsonl", lambda record: record["rollouts"][0].update(text="x" * 5000, think=None))
    html = render(run_dir)
    assert "x" * 3000 + " … (2000 more characters in gallery.jsonl)" in html
    assert "x" * 3001 not in html


def test_the_report_of_a_usual_run_is_small(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    run_dir = make_run(tmp_path / "run", steps=240, samples=8, evals=10, train_every=20)
    assert write_report(run_dir).stat().st_size < 1_500_000


def test_the_report_does_not_depend_on_where_or_when(run_dir: Path) -> None:
    assert render(run_dir) == render(run_dir)
    assert str(run_dir.parent) not in render(run_dir)


def test_of_a_step_logged_twice_the_last_line_counts(run_dir: Path) -> None:
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"step": 12, "kind": "train", "metrics": {"reward/total": 0.98765}}\n')
    page = Page(render(run_dir))
    chart = json.loads(page.named("figure")[10]["data-chart"])
    assert chart["series"][0]["x"][-1] == 12
    assert chart["series"][0]["y"][-1] == 0.9877


def test_the_command_line(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run_dir)]) == 0
    assert capsys.readouterr().out == f"{run_dir / 'report.html'}\n"
    assert main([str(run_dir / "none")]) == 2
    assert capsys.readouterr().err == (
        f"{run_dir / 'none'}: no such run folder; give the folder that holds metrics.jsonl\n"
    )


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError):
        write_report(tmp_path / "none")
