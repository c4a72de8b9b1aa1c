"""Starting a short command in less time: compile the methods of dataclasses when they are called.

A dataclass compiles the source of up to six methods when its module is imported. That is half of
the time that a command takes to import Bursar's own modules, and a command that reads one file
calls few of these methods. Here each method is compiled at its first call, and from then on it is
the method that `dataclasses` makes. Processes do not use this: they start once and run for long.

Where `dataclasses` has no such function, as in later versions of Python, this does nothing.
"""

import dataclasses
import gc
from collections.abc import Callable
from typing import Any, Final

COMPILE: Final = "_create_fn"
"""The function of `dataclasses` that compiles one method, in Python 3.11 and 3.12."""
OBJECTS: Final = 50_000
"""New objects after which garbage is looked for; importing makes many, and none is garbage."""


def start_quickly() -> None:
    """Change the process, before the modules of a command are imported."""
    gc.set_threshold(OBJECTS)
    compile_now = getattr(dataclasses, COMPILE, None)
    if compile_now is not None and not hasattr(compile_now, "is_deferring"):
        setattr(dataclasses, COMPILE, _deferring(compile_now))


def _deferring(compile_now: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    def deferred(name: str, *source: object, **namespaces: object) -> Callable[..., Any]:
        def compiled_at_first_call(self: object, *args: object, **named: object) -> object:
            method = compile_now(name, *source, **namespaces)
            method.__qualname__ = compiled_at_first_call.__qualname__
            for owner in type(self).__mro__:
                if owner.__dict__.get(name) is compiled_at_first_call:
                    type.__setattr__(owner, name, method)
            return method(self, *args, **named)

        compiled_at_first_call.__name__ = name
        return compiled_at_first_call

    deferred.is_deferring = True  # type: ignore[attr-defined]
    return deferred
