"""Stand-ins for modules of Python that click imports and hardly uses.

click imports `inspect` and `gettext`, and calls one function of each for every option. Both import
other modules, and `gettext` looks for a file of translations at each call. A stand-in has only that
function. It imports the real module when something else of it is used. So commands start faster,
and processes take less memory.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType


class LateModule(ModuleType):
    """Has a few functions of a module, and imports the module when something else is used."""

    def __init__(self, name: str, **functions: Callable[..., str]) -> None:
        super().__init__(name)
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            # The import statement looks for such names, and works without them.
            raise AttributeError(name)
        value = getattr(self.module(), name)
        self.__dict__[name] = value
        return value

    def module(self) -> ModuleType:
        """Import the real module; later imports find it under its name."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)


def defer_modules() -> None:
    """Change the process, before `dataclasses` and click are imported."""
    for late in (INSPECT, MSGSPEC_INSPECT, GETTEXT):
        sys.modules.setdefault(late.__name__, late)


def _clean(text: str) -> str:
    if "\n" not in text:
        return text.expandtabs().lstrip()
    return str(INSPECT.module().cleandoc(text))


def _untranslated(text: str) -> str:
    return text


def _untranslated_count(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


INSPECT = LateModule("inspect", cleandoc=_clean)
MSGSPEC_INSPECT = LateModule("msgspec.inspect")
GETTEXT = LateModule("gettext", gettext=_untranslated, ngettext=_untranslated_count)
"""Answers as `gettext` does without translations. Bursar has none, and click comes with none."""
