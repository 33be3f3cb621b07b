"""Where the project's own files are, whatever folder a run is started from."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def repo_root() -> Path:
    """The checkout that this package was installed from (an editable install)."""
    return Path(__file__).resolve().parents[3]


def conf_dir() -> Path:
    return repo_root() / "conf"


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """The config groups (`algorithm`, `algorithm/kl`, ...) with the names of their options."""
    found: dict[str, tuple[str, ...]] = {}
    for folder in sorted(path for path in conf_dir().rglob("*") if path.is_dir()):
        names = tuple(sorted(file.stem for file in folder.glob("*.yaml")))
        if names:
            found[folder.relative_to(conf_dir()).as_posix()] = names
    return found


def resolve(path: str) -> Path:
    """A path as given, relative to the current folder or else to the checkout."""
    given = Path(path).expanduser()
    if given.is_absolute() or given.exists():
        return given
    return repo_root() / given
