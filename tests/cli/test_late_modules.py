"""Modules in place of `inspect` and `gettext` answer as these do."""

import gettext
import inspect
import subprocess
import sys

import pytest

from bursar.cli.start.late_modules import GETTEXT, INSPECT

PROGRAM = """
import sys
from bursar.cli.start.late_modules import defer_modules
defer_modules()
import inspect, gettext
from gettext import ngettext
print("tokenize" in sys.modules)
print(inspect.signature(lambda first, second=2: None), type(gettext.NullTranslations).__name__)
import inspect as again
print(again.__file__.endswith("inspect.py"), again.isfunction is inspect.isfunction)
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line.",
        "  indented\ttwice",
        "First.\n\n    Second.\n      Third.\n",
        "\n  a\n  b\n\n",
    ],
)
def test_help_texts_are_cleaned_as_inspect_does(text):
    assert INSPECT.cleandoc(text) == inspect.cleandoc(text)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_texts_are_those_that_gettext_gives_without_translations(count):
    assert GETTEXT.gettext("Options") == gettext.gettext("Options")
    assert GETTEXT.ngettext("{n} day", "{n} days", count) == gettext.ngettext(
        "{n} day", "{n} days", count
    )


def test_anything_else_comes_from_the_real_module():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert ran.stdout.splitlines() == ["False", "(first, second=2) type", "True True"]
