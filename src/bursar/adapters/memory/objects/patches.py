"""JSON patch (RFC 6902) and merge patch (RFC 7386).

The implementation is as lenient as the API server's library: characters before the first slash
of a path are ignored, `replace` accepts a key that does not exist, and `test` treats an absent
key as null.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from bursar.app.cluster.ports import Json

JsonObject: TypeAlias = dict[str, Any]
"""Decoded JSON of a stored object. It is never changed in place."""

_APPEND: Final = "-"


class PatchError(ValueError):
    """A JSON patch that does not apply."""


def copied(value: Json) -> Any:  # noqa: ANN401 - any JSON value
    """A deep copy of the document, with lists for sequences and dicts for mappings."""
    if isinstance(value, Mapping):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [copied(inner) for inner in value]
    return value


# ------------------------------------------------------------------ merge patch


def merge_patched(target: Json, patch: Json) -> Any:  # noqa: ANN401
    """The target after a merge patch. A null in the patch removes the field.

    >>> merge_patched({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return copied(patch)
    result: JsonObject = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


# ------------------------------------------------------------------ JSON patch


def json_patched(target: JsonObject, operations: Json) -> JsonObject:
    """A copy of the target after all operations. Raises `PatchError`.

    >>> json_patched({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}])
    {'a': [2]}
    """
    document: JsonObject = copied(target)
    if not isinstance(operations, Sequence) or isinstance(operations, str):
        raise PatchError("a list of operations is expected")
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise PatchError("an operation is an object")
        _operate(document, operation)
    return document


def _operate(document: JsonObject, operation: Mapping[str, Json]) -> None:
    path = _steps(operation.get("path"))
    value = copied(operation.get("value"))
    match operation.get("op"):
        case "add":
            _add(document, path, value)
        case "remove":
            _remove(document, path)
        case "replace":
            _replace(document, path, value)
        case "test":
            if _found(document, path) != value:
                raise PatchError("the test failed")
        case "move":
            source = _steps(operation.get("from"))
            moved = _found(document, source, must_exist=True)
            _remove(document, source)
            _add(document, path, moved)
        case "copy":
            _add(document, path, copied(_found(document, _steps(operation.get("from")))))
        case _:
            raise PatchError("unknown operation")


def _steps(path: Json) -> list[str]:
    if not isinstance(path, str):
        raise PatchError("a path is a text")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    if not steps:
        raise PatchError("the whole document cannot be changed")
    return steps


def _parent(document: JsonObject, steps: list[str]) -> Any:  # noqa: ANN401
    holder: Any = document
    for step in steps[:-1]:
        holder = _child(holder, step)
    if not isinstance(holder, dict | list):
        raise PatchError("the path leads through something that has no parts")
    return holder


def _child(holder: Any, step: str) -> Any:  # noqa: ANN401
    if isinstance(holder, dict) and step in holder:
        return holder[step]
    if isinstance(holder, list):
        return holder[_index(holder, step)]
    raise PatchError("the path does not exist")


def _index(items: list[Any], step: str, *, end: int = -1) -> int:
    try:
        index = int(step)
    except ValueError:
        raise PatchError("a place in a list is a number") from None
    if not -len(items) <= index <= len(items) + end:
        raise PatchError("no such place in the list")
    return index


def _add(document: JsonObject, steps: list[str], value: Json) -> None:
    holder, last = _parent(document, steps), steps[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif last == _APPEND:
        holder.append(value)
    else:
        holder.insert(_index(holder, last, end=0), value)


def _remove(document: JsonObject, steps: list[str]) -> None:
    holder, last = _parent(document, steps), steps[-1]
    if isinstance(holder, list):
        del holder[_index(holder, last)]
    elif last in holder:
        del holder[last]
    else:
        raise PatchError("nothing to remove")


def _replace(document: JsonObject, steps: list[str], value: Json) -> None:
    holder, last = _parent(document, steps), steps[-1]
    if isinstance(holder, list):
        holder[_index(holder, last)] = value
    else:
        holder[last] = value


def _found(document: JsonObject, steps: list[str], *, must_exist: bool = False) -> Any:  # noqa: ANN401
    holder, last = _parent(document, steps), steps[-1]
    if isinstance(holder, list):
        return holder[_index(holder, last)]
    if must_exist and last not in holder:
        raise PatchError("nothing there")
    return holder.get(last)
