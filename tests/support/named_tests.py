"""Tests as pages of the documentation name them: `core/test_names.py::test_name[a case]`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
DEFINITION = re.compile(r"^\s*(?:async )?def (\w+)\(", re.MULTILINE)
REFERENCE = re.compile(r"`([^`:]+\.py)::(\w+)(?:\[([^`]+)\])?`")


def named_in(text: str) -> list[tuple[str, str, str]]:
    """File, name and case of each test that a text names; no case for all of them."""
    return REFERENCE.findall(text)


@cache
def names_in(path: Path) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in _nodes(path) if isinstance(node, functions))


def is_there(path: str, name: str, case: str = "") -> bool:
    """Whether there is such a test. A case has its name somewhere in the file, as a literal."""
    return name in names_in(TESTS / path) and (not case or case in _literals(TESTS / path))


def all_tests() -> Iterator[tuple[str, str]]:
    """File and name of every test there is. To parse all files would take seconds."""
    for path in TESTS.rglob("test_*.py"):
        for name in DEFINITION.findall(path.read_text()):
            yield str(path.relative_to(TESTS)), name


@cache
def _literals(path: Path) -> frozenset[str]:
    constants = (node.value for node in _nodes(path) if isinstance(node, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))
