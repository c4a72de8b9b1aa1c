"""The smallest JSON patch (RFC 6902) from one document to another."""

from typing import TypeAlias

from bursar.wire.documents.tree import Value
from bursar.wire.json_pointer import pointer

PatchStep: TypeAlias = "dict[str, Value]"
"""One operation: `op`, `path` and, unless it removes, `value`."""


def patch_between(before: Value, after: Value) -> tuple[PatchStep, ...]:
    """Operations that turn `before` into `after`, each at the deepest place that differs.

    Branches that are the same Python object in both documents are not compared.

    >>> patch_between({"a": {"b": 1, "c/d": 2}}, {"a": {"b": 1}, "e": {}})
    ({'op': 'remove', 'path': '/a/c~1d'}, {'op': 'add', 'path': '/e', 'value': {}})
    """
    steps: list[PatchStep] = []
    _compare(before, after, "", steps)
    return tuple(steps)


def _compare(before: Value, after: Value, path: str, steps: list[PatchStep]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_objects(before, after, path, steps)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is not new:
                _compare(old, new, f"{path}/{index}", steps)
    elif type(before) is not type(after) or before != after:
        steps.append({"op": "replace", "path": path, "value": after})


def _compare_objects(
    before: dict[str, Value], after: dict[str, Value], path: str, steps: list[PatchStep]
) -> None:
    in_both = 0
    for key, old in before.items():
        if key not in after:
            steps.append({"op": "remove", "path": pointer(path, key)})
            continue
        in_both += 1
        new = after[key]
        if old is not new:
            _compare(old, new, pointer(path, key), steps)
    if in_both < len(after):
        for key, new in after.items():
            if key not in before:
                steps.append({"op": "add", "path": pointer(path, key), "value": new})
