"""Makes `report.html` from a run folder."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from groundrl.reporting.facts import build_facts
from groundrl.reporting.files import read_run
from groundrl.reporting.gallery import build_gallery
from groundrl.reporting.heldout import heldout_panel
from groundrl.reporting.outcome import build_outcome, stored_evals
from groundrl.reporting.panels import train_panels
from groundrl.reporting.script import SCRIPT
from groundrl.reporting.style import STYLE
from groundrl.reporting.template import TEMPLATES
from groundrl.tracking.lines import write_atomic

FILE_NAME = "report.html"


def write_report(run_dir: Path) -> Path:
    """Write the report of `run_dir` into it and return its path.

    The page stands alone: styles, script, images and curves are inside, and its content security policy
    allows nothing else. Text of the model is escaped. Missing and half-written files are named in the
    page. Raises RunFolderError if the folder does not exist and OSError if it cannot be written.
    """
    path = run_dir / FILE_NAME
    write_atomic(path, render(run_dir).encode("utf-8", "replace"))
    return path


def render(run_dir: Path) -> str:
    """The report of `run_dir` as HTML text."""
    run = read_run(run_dir)
    gallery = build_gallery(run_dir, run.gallery)
    held_out = heldout_panel(run.evals, stored_evals(run.result).references)
    environment = Environment(
        loader=DictLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    place = run_dir.resolve()
    return environment.get_template("report").render(
        name=place.name,
        parent=place.parent.name,
        facts=build_facts(run),
        outcome=build_outcome(run.result, run.evals),
        panels=[*([held_out] if held_out else []), *train_panels(run.train)],
        gallery=gallery,
        notes=[*run.notes, *gallery.notes],
        config=run.config,
        policy=_policy(),
        style=Markup(STYLE),
        script=Markup(SCRIPT),
    )


def _policy() -> str:
    """A content security policy under which only our own style and script run, and only data images load."""
    return (
        "default-src 'none'; img-src data:; "
        f"style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)}; base-uri 'none'; form-action 'none'"
    )


def _digest(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
