"""Start a short command in less time: do at the first use what modules do at import.

A command that reads one file uses few of the things that its modules prepare. So some are delayed:

- A dataclass compiles the source of up to six methods when its module is imported, and describes
  itself by its signature. Here each method is compiled at its first call, and `__init__` after some
  calls; from then on it is the method that `dataclasses` makes.
- A regular expression that a module of Bursar keeps in a name is compiled at its first use.
- msgspec prefers `typing_extensions` to `typing`, and works the same without it. It gets `typing`.
- A module of Bursar is searched only in the folder of its package.

Processes do not use this: they start once and run for long. If `dataclasses` has no such functions,
as in later versions of Python, dataclasses stay as they are.
"""

import atexit
import dataclasses
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import SimpleNamespace
from typing import Any, Final

COMPILE: Final = "_create_fn"
"""The function of `dataclasses` that compiles one method, in Python 3.11 and 3.12."""
INIT: Final = "_init_fn"
"""The function of `dataclasses` that makes `__init__`, in Python 3.11 and 3.12."""
CALLS: Final = 30
"""Calls after which `__init__` is compiled. To compile it costs as much as a hundred calls of the
uncompiled one."""
OBJECTS: Final = 50_000
"""Threshold of the garbage collector: importing makes many new objects, and none is garbage."""
CO_OPTIMIZED: Final = 1
"""`inspect.CO_OPTIMIZED`: the flag of the code of functions."""
PATTERNS_OF: Final = ("bursar", "click", "fractions", "json", "platform", "textwrap", "yaml")
"""Packages that use their regular expressions by their methods only."""


def start_quickly() -> None:
    """Change the process, before the modules of a command are imported."""
    if hasattr(re.compile, "is_deferring"):
        return
    gc.set_threshold(OBJECTS)
    # Python collects garbage before it ends. That is in vain: the memory goes with the process.
    atexit.register(gc.freeze)
    re.compile = _late_patterns(re.compile)
    sys.meta_path[:0] = [_PlainTyping(), _OwnModules()]
    compile_now = getattr(dataclasses, COMPILE, None)
    init_now = getattr(dataclasses, INIT, None)
    if compile_now is not None and init_now is not None:
        setattr(dataclasses, COMPILE, _late_methods(compile_now))
        setattr(dataclasses, INIT, _late_init(init_now))
        # `dataclasses` asks for the signature of each class, to make a docstring of it.
        quick = SimpleNamespace(signature=lambda _: "", get_annotations=_annotations)
        dataclasses.inspect = quick  # type: ignore[attr-defined]


# ------------------------------------------------------------------ dataclasses


def _annotations(of: type) -> dict[str, object]:
    """Do as `inspect.get_annotations`, for a class."""
    return dict(of.__dict__.get("__annotations__", {}))  # noqa: RUF063 - see above


def _late_methods(compile_now: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    def deferred(name: str, *source: object, **namespaces: object) -> Callable[..., Any]:
        def compiled_at_first_call(self: object, *args: object, **named: object) -> object:
            method = compile_now(name, *source, **namespaces)
            _replace(compiled_at_first_call, method, type(self))
            return method(self, *args, **named)

        compiled_at_first_call.__name__ = name
        return compiled_at_first_call

    return deferred


def _late_init(init_now: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    def deferred(*facts: Any) -> Callable[..., Any]:  # noqa: ANN401 - those of `dataclasses`
        assigned: _Assigned | None = None
        calls = 0

        def compiled_after_some_calls(self: object, /, *args: object, **named: object) -> None:
            nonlocal assigned, calls
            assigned = assigned or _Assigned(*facts)
            calls += 1
            if calls <= CALLS and assigned.takes(args, named):
                assigned.assign(self, args, named)
                return
            method = init_now(*facts)
            _replace(compiled_after_some_calls, method, type(self))
            method(self, *args, **named)

        compiled_after_some_calls.__name__ = "__init__"
        return compiled_after_some_calls

    return deferred


class _Assigned:
    """The fields that `__init__` of a dataclass assigns, without source to compile."""

    def __init__(
        self,
        fields: list[Any],
        positional: list[Any],
        by_name: list[Any],
        is_frozen: bool,  # noqa: FBT001 - as `_init_fn` has it
        has_post_init: bool,  # noqa: FBT001 - as `_init_fn` has it
        _self_name: str,
        _globals: object,
        has_slots: bool,  # noqa: FBT001 - as `_init_fn` has it
    ) -> None:
        missing = dataclasses.MISSING
        self.positional = [each.name for each in positional]
        parameters = [*positional, *by_name]
        self.parameters = {each.name for each in parameters}
        self.needed = {
            each.name
            for each in parameters
            if each.default is missing and each.default_factory is missing
        }
        self.stored = [
            (each.name, each.default, each.default_factory)
            for each in fields
            if not _is_only_passed_on(each)
            and (
                each.init
                or each.default_factory is not missing
                or (has_slots and each.default is not missing)
            )
        ]
        self.passed_on = [(each.name, each.default) for each in fields if _is_only_passed_on(each)]
        self.store = object.__setattr__ if is_frozen else setattr
        self.has_post_init = has_post_init

    def takes(self, args: tuple[object, ...], named: dict[str, object]) -> bool:
        """Whether the arguments are right. If not, the method of `dataclasses` raises the error."""
        given = {*self.positional[: len(args)], *named}
        return (
            len(args) <= len(self.positional)
            and len(given) == len(args) + len(named)
            and self.needed <= given <= self.parameters
        )

    def assign(self, to: Any, args: tuple[object, ...], named: dict[str, object]) -> None:  # noqa: ANN401 - any class
        given = dict(zip(self.positional, args, strict=False)) | named
        for name, default, factory in self.stored:
            if name in given:
                value = given[name]
            else:
                value = default if factory is dataclasses.MISSING else factory()
            self.store(to, name, value)
        if self.has_post_init:
            to.__post_init__(*(given.get(name, default) for name, default in self.passed_on))


def _is_only_passed_on(field: Any) -> bool:  # noqa: ANN401 - a field of `dataclasses`
    return field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]  # noqa: SLF001 - as `_init_fn`


def _replace(late: Callable[..., Any], method: Callable[..., Any], of: type) -> None:
    method.__qualname__ = late.__qualname__
    for owner in of.__mro__:
        if owner.__dict__.get(late.__name__) is late:
            type.__setattr__(owner, late.__name__, method)


# ------------------------------------------------------------------ regular expressions


class _LatePattern:
    """A regular expression that is compiled when one of its methods is first asked for."""

    def __init__(self, compile_now: Callable[..., Any], source: tuple[object, ...]) -> None:
        self._compile_now = compile_now
        self._source = source

    def __getattr__(self, name: str) -> object:
        pattern = self.__dict__.get("_pattern") or self._compile_now(*self._source)
        self._pattern = pattern
        value = getattr(pattern, name)
        # From now on, Python finds the attribute without calling this method.
        self.__dict__[name] = value
        return value


def _late_patterns(compile_now: Callable[..., Any]) -> Callable[..., Any]:
    def deferred(*source: object, **flags: object) -> object:
        frame = sys._getframe(1)  # noqa: SLF001 - who asks
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        # Code inside a function expects an error of the expression at once.
        if package not in PATTERNS_OF or flags or frame.f_code.co_flags & CO_OPTIMIZED:
            return compile_now(*source, **flags)
        return _LatePattern(compile_now, source)

    deferred.is_deferring = True  # type: ignore[attr-defined]
    return deferred


# ------------------------------------------------------------------ msgspec


class _PlainTyping:
    """Hides `typing_extensions` from msgspec alone, which then uses `typing`."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "typing_extensions":
            msgspec = sys.modules.get("msgspec")
            if msgspec is not None and not hasattr(msgspec, "Struct"):
                raise ModuleNotFoundError(name)


# ------------------------------------------------------------------ Bursar's own modules


class _OwnModules:
    """Finds a module of Bursar in the folder of its package, where it must be.

    Python's finder looks there for a file with each ending that a module may have.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, *_: object) -> ModuleSpec | None:
        if path is None or not name.startswith("bursar."):
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}"
        for file in (f"{place}.py", f"{place}/__init__.py"):
            if os.access(file, os.R_OK):
                spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file)
                spec.has_location = True
                if file.endswith("/__init__.py"):
                    spec.submodule_search_locations = [place]
                return spec
        return None
