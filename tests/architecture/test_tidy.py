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
FOLDER_MODULES_MAX = 12
SUPPORT_MODULES_MAX = 12
MAY_SLEEP = "tests/support/until.py"
"""The one place where tests wait by the clock."""
BANNED_STEMS = {"utils", "util", "helpers", "common", "misc", "base", "manager"}
FILES = sorted(SOURCE.rglob("*.py"))
SUPPORT = ROOT / "tests" / "support"
PACKAGES = sorted(
    path.parent for path in (*FILES, *SUPPORT.rglob("*.py")) if path.stem == "__init__"
)
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


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*FILES, *sorted(SUPPORT.rglob("*.py"))], ids=named)
def test_file_is_tidy(path):
    text = path.read_text()
    tree = ast.parse(text)

    assert path.stem not in BANNED_STEMS, "name the module after what it holds"
    assert text.count("\n") <= FILE_LINES_MAX, "split the module along its nouns"
    assert ast.get_docstring(tree), "every module says in one line why it exists"
    assert [f for f in functions(tree) if f[1] > FUNCTION_LINES_MAX] == []


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_package_says_in_one_sentence_what_it_holds(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""

    assert re.fullmatch(r"[^\n]+\.", text), "one line, one sentence"
    assert not re.search(r"[.!?] [A-Z]", text), "one sentence, not two"


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_folder_holds_no_more_modules_than_a_person_can_keep_in_mind(package):
    modules = [path for path in package.glob("*.py") if path.stem != "__init__"]
    is_support = package.is_relative_to(SUPPORT)
    most = SUPPORT_MODULES_MAX if is_support else FOLDER_MODULES_MAX

    assert len(modules) <= most, "make a room for some of them"


def test_every_folder_of_python_files_is_a_package():
    folders = {path.parent for path in (*FILES, *SUPPORT.rglob("*.py"))}

    assert folders == set(PACKAGES)


@pytest.mark.parametrize("path", CORE_FILES, ids=named)
def test_core_knows_no_float(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))

    assert not [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    assert not [n for n in nodes if isinstance(n, ast.Name) and n.id == "float"]
    assert not [n for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    assert not [n for n in nodes if isinstance(n, ast.AsyncFunctionDef | ast.Await)]


def test_tests_and_tools_are_short_too():
    long = {
        named(path): count
        for path in tracked("tests/*.py", "tools/*.py", "benchmarks/*.py", "*.go")
        if (count := path.read_text().count("\n")) > FILE_LINES_MAX
    }

    assert long == {}


def test_no_mocks_anywhere():
    banned = re.compile(
        r"^\s*(?:from|import) (?:unittest\.mock|mock)\b|\bmonkeypatch\b", re.MULTILINE
    )
    users = [
        named(path)
        for path in tracked("tests/*.py", "src/*.py", "benchmarks/*.py")
        if path != Path(__file__) and banned.search(path.read_text())
    ]

    assert users == []


def test_tests_wait_for_conditions_and_not_for_the_clock():
    """`until` and `until_sync` of tests/support/until.py wait, and say what for."""
    sleepers = [
        named(path)
        for path in tracked("tests/*.py")
        if "time.sleep(" in path.read_text() and path != Path(__file__)
    ]

    assert [name for name in sleepers if not name.startswith(MAY_SLEEP)] == []


def test_pinned_files_name_no_place_to_download_from():
    """Packages come from whatever registry the machine is set up with."""
    pinned = tracked("requirements", "controlplane/go.mod", "controlplane/go.sum")
    naming = [named(path) for path in pinned if "://" in path.read_text()]

    assert pinned
    assert naming == []


def test_every_requirement_is_pinned_with_a_hash():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        pins = re.findall(r"^[A-Za-z0-9._-]+==\S+(.*)$", path.read_text(), re.MULTILINE)
        text = path.read_text()

        assert pins, path.name
        assert text.count("--hash=sha256:") >= len(pins), path.name
