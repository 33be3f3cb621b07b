"""Where the project's own files are, whatever folder a run is started from."""

from __future__ import annotations

from pathlib import Path


def repo_root() -> Path:
    """The checkout that this package was installed from (an editable install)."""
    return Path(__file__).resolve().parents[3]


def conf_dir() -> Path:
    return repo_root() / "conf"


def resolve(path: str) -> Path:
    """A path as given, relative to the current folder or else to the checkout."""
    given = Path(path).expanduser()
    if given.is_absolute() or given.exists():
        return given
    return repo_root() / given
