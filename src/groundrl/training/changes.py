"""What differed from the commit when a run began, kept as a patch in its folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from groundrl.config.repo import repo_root
from groundrl.tracking.lines import write_atomic
from groundrl.tracking.redact import HIDDEN, redact_source

MOST_BYTES = 2**20
MOST_NAMES = 10
CODE = ("src", "conf", "train.py")
"""Where a file that git does not know could still change a result."""

_DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--", ".", ":!experiments")
"""Nothing in experiments/ decides a run, and a sweep adds results to it."""


def save_changes(folder: Path, commit: str, *, root: Path | None = None) -> str | None:
    """Write `changes.patch` and return a line that says what it holds, None when nothing differs.

    It holds the changes to files that git knows; new files below src and conf are named only. At most 1 MiB
    is kept, and values that look like secrets are hidden; both are said. A resumed run whose changes are
    others writes `changes-2.patch`. Raises OSError when the folder cannot be written; without git the answer
    is None.
    """
    place = root or repo_root()
    try:
        diff, cut = _diff(place)
        unknown = _git(place, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    notes: list[str] = []
    if unknown:
        more = f" and {len(unknown) - MOST_NAMES} more" if len(unknown) > MOST_NAMES else ""
        notes.append(f"new files that are not kept: {', '.join(unknown[:MOST_NAMES])}{more}")
    if not diff:
        return notes[0] if notes else None
    text, hidden = redact_source(diff.decode("utf-8", "surrogateescape"))
    if hidden:
        notes.insert(0, f"{hidden} values hidden ({HIDDEN})")
    if cut:
        notes.insert(0, f"cut after {MOST_BYTES} bytes")
    head = f"Changes against {commit.removesuffix('+changes')}" + "".join(f"; {note}" for note in notes)
    patch = f"{head}\n\n{text}".encode("utf-8", "surrogateescape")
    file = _place(folder, patch)
    write_atomic(file, patch)
    return "; ".join([f"{file.name} ({len(patch)} bytes)", *notes])


def _diff(root: Path) -> tuple[bytes, bool]:
    """The first whole lines of the patch, and whether there are more; no more than needed is read."""
    command = ["git", "-C", str(root), *_DIFF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        found = process.stdout.read(MOST_BYTES + 1)
        cut = len(found) > MOST_BYTES
        if cut:
            process.kill()
            found = found[: found.rfind(b"\n", 0, MOST_BYTES) + 1]
    if process.returncode and not cut:
        raise subprocess.CalledProcessError(process.returncode, command)
    return found, cut


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


def _place(folder: Path, patch: bytes) -> Path:
    """The first name that is free, or that holds these changes already."""
    number, file = 1, folder / "changes.patch"
    while file.exists() and file.read_bytes() != patch:
        number += 1
        file = folder / f"changes-{number}.patch"
    return file
