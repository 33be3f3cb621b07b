"""The report in a real browser, opened from the disk with no network."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groundrl.reporting.report import write_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((found for found in map(shutil.which, NAMES) if found), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=4000",
    "--enable-logging=stderr",
)
CONSOLE = re.compile(r":CONSOLE[:(].*")
ATTACK = (
    "</script></pre><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
)

CHECK = """
window.addEventListener("load", () => {  // images are in the page: their sizes are known by now
  const found = {};
  const images = Array.from(document.images);
  found.images = images.map((image) => [image.naturalWidth, image.naturalHeight]);
  found.title = document.title;
  const seen = (element) => element.getClientRects().length > 0;
  const card = document.querySelector(".card");
  const parts = Array.from(card.querySelectorAll("[data-step]"));
  const visible = () => parts.filter(seen).map((part) => part.dataset.step);
  found.last = visible();
  const slider = document.getElementById("step");
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  found.first = visible();
  card.querySelectorAll("[data-go]")[1].click();
  found.second = visible();
  found.slider = document.getElementById("step-name").textContent;
  const stage = card.querySelector(".stage");
  const picture = stage.querySelector("img").getBoundingClientRect();
  const drawn = Array.from(stage.querySelectorAll("rect.truth")).filter(seen)[0];
  const box = drawn.getBoundingClientRect();
  const edges = [box.left - picture.left, box.top - picture.top, box.width, box.height];
  found.box = edges.map((edge) => edge / picture.width);
  found.dash = getComputedStyle(document.querySelector(".stage rect.pred")).strokeDasharray;
  found.copy = getComputedStyle(document.querySelector(".strip .copy")).backgroundImage.slice(0, 19);
  const figure = document.querySelector("figure[data-chart]");
  const svg = figure.querySelector("svg");
  svg.scrollIntoView();
  const place = svg.getBoundingClientRect();
  const move = { clientX: place.left + place.width * 0.98, clientY: place.top + 20, bubbles: true };
  svg.dispatchEvent(new PointerEvent("pointermove", move));
  found.read = figure.querySelector("output").textContent;
  svg.dispatchEvent(new PointerEvent("pointerleave", move));
  found.left = figure.querySelector("output").textContent;
  found.wider = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  const output = document.createElement("textarea");
  output.id = "self-check";
  output.textContent = JSON.stringify(found);
  document.body.append(output);
});
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The page after its scripts ran, and what the browser wrote to its console."""

    dom: str
    console: list[str]

    @property
    def found(self) -> dict[str, Any]:
        match = re.search(r'<textarea id="self-check">(.*?)</textarea>', self.dom, re.DOTALL)
        assert match, "the self-check did not run to its end"
        return json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def visit(page: Path, profile: Path, *, width: int = 1280) -> Visit:
    """Open `page` from the disk with an empty profile."""
    assert BROWSER
    command = [BROWSER, *FLAGS, f"--window-size={width},900", f"--user-data-dir={profile}", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return Visit(dom=done.stdout, console=CONSOLE.findall(done.stderr))


def with_check(report: Path) -> Path:
    """A copy of the report in which the self-check is allowed and runs last."""
    digest = base64.b64encode(hashlib.sha256(CHECK.encode()).digest()).decode()
    html = report.read_text(encoding="utf-8")
    html = html.replace("script-src ", f"script-src &#39;sha256-{digest}&#39; ", 1)
    html = html.replace("</body>", f"<script>{CHECK}</script></body>", 1)
    copy = report.with_name("checked.html")
    copy.write_text(html, encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model and question texts attack the page."""
    source = Path(__file__).parents[1] / "unit" / "reporting" / "fake_run.py"
    spec = importlib.util.spec_from_file_location("fake_run", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.make_run(tmp_path_factory.mktemp("browser") / "run", steps=40, samples=2, evals=3)
    gallery = folder / "gallery.jsonl"
    records = [json.loads(line) for line in gallery.read_text().splitlines()]
    for record in records:
        record["question"] += ATTACK
        for rollout in record["rollouts"]:
            rollout["text"] += ATTACK
            rollout["think"] += ATTACK
            rollout["parse_status"] = "ok"
            rollout["boxes"] = record["truth"]
    module.write_lines(gallery, records)
    write_report(folder)
    return folder


def test_the_report_opens_without_a_word_on_the_console(run_dir: Path, tmp_path: Path) -> None:
    page = visit(run_dir / "report.html", tmp_path)
    assert page.console == []
    assert "<title>run</title>" in page.dom
    assert page.dom.count('class="truth"') > 10
    assert page.dom.count('class="pred"') > 10


def test_the_console_would_tell(run_dir: Path, tmp_path: Path) -> None:
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    broken = run_dir / "broken.html"
    broken.write_text(html.replace("</main>", "<script>1</script></main>", 1), encoding="utf-8")
    assert any("Content Security Policy" in line for line in visit(broken, tmp_path).console)


def test_the_page_works(run_dir: Path, tmp_path: Path) -> None:
    page = visit(with_check(run_dir / "report.html"), tmp_path)
    found = page.found
    record = json.loads((run_dir / "gallery.jsonl").read_text().splitlines()[0])
    x1, y1, x2, y2 = record["truth"][0]["bbox"]
    assert page.console == []
    assert found["title"] == "run"
    assert found["images"] == [[112, 112], [112, 112]]
    assert found["last"] == ["40", "40"], "the picture's boxes and the text of the last step"
    assert found["first"] == ["0", "0"]
    assert (found["second"], found["slider"]) == (["20", "20"], "20")
    assert found["box"] == pytest.approx([edge / 112 for edge in (x1, y1, x2 - x1, y2 - y1)], abs=0.02)
    assert found["dash"] != "none"
    assert found["copy"] == 'url("data:image/png'
    assert (found["read"], found["left"]) == ("step 40", "")
    assert found["wider"] is False


@pytest.mark.parametrize("width", [360, 700])
def test_a_narrow_window_needs_no_sideways_scrolling(run_dir: Path, tmp_path: Path, width: int) -> None:
    page = visit(with_check(run_dir / "report.html"), tmp_path, width=width)
    assert page.found["wider"] is False
