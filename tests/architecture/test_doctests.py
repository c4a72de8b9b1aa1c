"""Examples in docstrings show what the code does."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for folder in (ROOT / "src", ROOT / "tools")
        for path in sorted(folder.rglob("*.py"))
        if ">>> " in path.read_text()
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name):
    ran = doctest.testmod(import_module(name))

    assert ran.attempted > 0
    assert ran.failed == 0
