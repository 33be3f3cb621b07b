"""What git knows of commits and of a file at one."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from groundrl.errors import UserError


class History:
    """The history of the checkout at `root`. Methods raise UserError outside a checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.comes_after = cache(self._comes_after)
        self.text_at = cache(self._text_at)

    def check(self) -> None:
        """Raise UserError where the history is not there or is cut off: verdicts would depend on it."""
        done = self._git("rev-parse", "--is-shallow-repository")
        if done.returncode:
            raise UserError(f"{self.root}: claims need the git history; work in a clone of the repository")
        if done.stdout.strip() == "true":
            raise UserError(f"{self.root}: claims need the whole history; run git fetch --unshallow")

    def _comes_after(self, commit: str, earlier: str) -> bool:
        """Whether `commit` is `earlier` or descends from it; False for commits that are not here."""
        return self._git("merge-base", "--is-ancestor", earlier, commit).returncode == 0

    def _text_at(self, commit: str, path: str) -> str | None:
        """The text of a file at a commit; None if it was not there."""
        done = self._git("show", f"{commit}:{path}")
        return None if done.returncode else done.stdout

    def _git(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["git", "-C", str(self.root), *words], capture_output=True, text=True, check=False, timeout=60
            )
        except OSError as error:
            raise UserError(
                f"git cannot be started ({error.strerror}); claims need the git history"
            ) from None
