"""House rules that a linter does not know: small files, named exceptions, nothing of one machine."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "scripts", "benchmarks")
PYTHON = [ROOT / "train.py", *sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".lock", ".txt", ".cfg", ".jinja", ".sh", ""}
MOST_LINES = 400
MACHINE = re.compile(r"(?<![\w.$}/-])/(?:home|root|work|Users|mnt|opt|tmp|data|scratch)/[\w.-]+")
INDEX = re.compile(
    r"--(?:extra-)?index-url|--find-links|--trusted-host|https?://[^\s\"']*/simple\b|pypi\.[a-z]+/"
)


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def tracked() -> list[Path]:
    """Text files of the repository: tracked ones and new ones that are not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in done.stdout.splitlines()]
    return [path for path in files if path.is_file() and path.suffix in TEXT and path.name != "LICENSE"]


def broad_handlers(source: str) -> list[int]:
    """Lines that catch everything: bare except, Exception or BaseException, alone or in a tuple."""
    found: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = [None] if node.type is None else getattr(node.type, "elts", [node.type])
        names = [getattr(one, "id", getattr(one, "attr", None)) for one in caught]
        if any(name in (None, "Exception", "BaseException") for name in names):
            found.append(node.lineno)
    return found


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines(path) for path in [*PYTHON, *TESTS] if lines(path) > MOST_LINES
    }
    assert long == {}
    assert statistics.median(lines(path) for path in PYTHON) < 150


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("try:\n  pass\nexcept:\n  pass", 1),
        ("try:\n  pass\nexcept Exception as e:\n  pass", 1),
        ("try:\n  pass\nexcept (ValueError, builtins.BaseException):\n  pass", 1),
        ("try:\n  pass\nexcept (ValueError, KeyError):\n  pass", 0),
    ],
)
def test_the_search_for_broad_handlers_finds_them(source: str, count: int) -> None:
    assert len(broad_handlers(source)) == count


def test_no_exception_is_swallowed() -> None:
    found = {str(path.relative_to(ROOT)): broad_handlers(path.read_text("utf-8")) for path in PYTHON}
    assert {path: where for path, where in found.items() if where} == {}


def test_no_work_is_left_open() -> None:
    marks = re.compile(r"#\s*(?:TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    found = [str(path.relative_to(ROOT)) for path in PYTHON if marks.search(path.read_text("utf-8"))]
    assert found == []


def test_nothing_names_a_machine_or_an_index() -> None:
    assert MACHINE.search('path: "/home/someone/data"')
    assert not MACHINE.search("groups a/b, ${root}/tmp/x, ./work/x, https://host/data/x")
    assert INDEX.search("--extra-index-url https://host/simple")
    found: list[str] = []
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            line = line.replace("/home/someone", "") if path in TESTS else line  # an example, not a machine
            if MACHINE.search(line) or INDEX.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_every_package_says_what_it_is() -> None:
    """A module without a docstring has no stated noun."""
    silent = [
        str(path.relative_to(ROOT))
        for path in PYTHON
        if path.stat().st_size > 0 and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert [name for name in silent if not name.endswith("__init__.py")] == []
