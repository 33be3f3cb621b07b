"""Which commit of the claims a run was made under: predictions must be older than the results."""

from __future__ import annotations

import subprocess

from groundrl.sweeping.layout import Layout


def claims_commit(layout: Layout, id: str, at: str | None = None) -> str | None:
    """The last commit of `experiments/<id>/claims.yaml`.

    at  as of this commit (`+changes` is left out); None: now

    None when the file is not committed, not there, differs from its commit now, or git cannot say.
    """
    file = layout.claims(id)
    try:
        if at is None and (not file.is_file() or _git(layout, "status", "--porcelain", "--", str(file))):
            return None
        start = () if at is None else (at.partition("+")[0],)
        return _git(layout, "log", "-1", "--format=%H", *start, "--", str(file)) or None
    except (OSError, subprocess.SubprocessError):
        return None


def _git(layout: Layout, *words: str) -> str:
    command = ["git", "-C", str(layout.root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
