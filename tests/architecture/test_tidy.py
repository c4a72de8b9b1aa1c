"""The house rules that no linter knows, checked over every source file."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bursar"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60  # without the docstring
BANNED_STEMS = {"utils", "util", "helpers", "common", "misc", "base", "manager"}
FILES = sorted(SOURCE.rglob("*.py"))
CORE_FILES = [path for path in FILES if "core" in path.relative_to(SOURCE).parts]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                doc = node.body[0]
                lines -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            yield node.name, lines


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_file_is_tidy(path):
    text = path.read_text()
    tree = ast.parse(text)

    assert path.stem not in BANNED_STEMS, "name the module after what it holds"
    assert text.count("\n") <= FILE_LINES_MAX, "split the module along its nouns"
    assert ast.get_docstring(tree), "every module says in one line why it exists"
    assert [f for f in functions(tree) if f[1] > FUNCTION_LINES_MAX] == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_core_knows_no_float(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))

    assert not [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    assert not [n for n in nodes if isinstance(n, ast.Name) and n.id == "float"]
    assert not [n for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    assert not [n for n in nodes if isinstance(n, ast.AsyncFunctionDef | ast.Await)]


def test_tests_and_tools_are_short_too():
    long = {
        str(path.relative_to(ROOT)): count
        for path in tracked("tests/*.py", "tools/*.py", "benchmarks/*.py", "*.go")
        if (count := path.read_text().count("\n")) > FILE_LINES_MAX
    }

    assert long == {}


def test_no_mocks_anywhere():
    banned = re.compile(
        r"^\s*(?:from|import) (?:unittest\.mock|mock)\b|\bmonkeypatch\b", re.MULTILINE
    )
    users = [
        str(path.relative_to(ROOT))
        for path in tracked("tests/*.py", "src/*.py", "benchmarks/*.py")
        if path != Path(__file__) and banned.search(path.read_text())
    ]

    assert users == []


def test_pinned_files_name_no_place_to_download_from():
    """Packages come from whatever registry the machine is set up with."""
    pinned = tracked("requirements", "controlplane/go.mod", "controlplane/go.sum")
    named = [str(path.relative_to(ROOT)) for path in pinned if "://" in path.read_text()]

    assert pinned
    assert named == []


def test_every_requirement_is_pinned_with_a_hash():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        pins = re.findall(r"^[A-Za-z0-9._-]+==\S+(.*)$", path.read_text(), re.MULTILINE)
        text = path.read_text()

        assert pins, path.name
        assert text.count("--hash=sha256:") >= len(pins), path.name
