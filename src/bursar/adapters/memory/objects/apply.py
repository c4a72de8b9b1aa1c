"""Server-side apply: ownership of fields, and conflicts between field managers.

A field manager applies a configuration. A field that it applied before and that is no longer in
the configuration is removed, unless another manager applied it as well. A field for which another
manager applied a different value is a conflict, unless the patch is forced.

Only managers of apply patches are recorded. The API server also records the writer of every other
patch. As there, a write by another patch ends the ownership of the fields it changes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.patches import JsonObject, copied

Path: TypeAlias = tuple[str, ...]
"""Steps as in `fieldsV1`: `f:<name>` for a field, `k:{"name":"c"}` or `v:"text"` for an item."""

_FIELD: Final = "f:"
_ITEM: Final = "k:"
_TEXT: Final = "v:"
_SELF: Final = "."

# Fields that identify an object have no manager.
_IDENTITY: Final = frozenset(
    {("f:apiVersion",), ("f:kind",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "generation",
            "managedFields",
            "selfLink",
        )
    }
)

_SET: Final[tuple[str, ...]] = ()
_KEYED_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "containerStatuses": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "finalizers": _SET,
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Keys of the items of lists of built-in kinds. All other lists are atomic."""
_WHOLE_MAPS: Final = frozenset({"matchLabels", "nodeSelector", "selector", "scopeSelector"})
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_METADATA_LISTS: Final = frozenset({"finalizers", "ownerReferences"})


@dataclass(frozen=True, slots=True)
class _Shape:
    """The structure of a field, from its name or from the schema of a custom kind."""

    kind: Kind
    schema: Mapping[str, Any] | None
    name: str = ""

    def at(self, name: str) -> "_Shape":
        if self.schema is None or (not self.name and name == "metadata"):
            return _Shape(self.kind, None, name)
        properties = self.schema.get("properties") or {}
        return _Shape(self.kind, properties.get(name) or {}, name)

    @property
    def item(self) -> "_Shape":
        schema = None if self.schema is None else self.schema.get("items") or {}
        return _Shape(self.kind, schema, "[]")

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of a list's items: empty for a set, None for an atomic list."""
        if self.schema is None:
            is_known = not self.kind.is_custom or self.name in _METADATA_LISTS
            return _KEYED_LISTS.get(self.name) if is_known else None
        match self.schema.get("x-kubernetes-list-type"):
            case "map":
                return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())
            case "set":
                return _SET
            case _:
                return None

    @property
    def is_whole(self) -> bool:
        if self.schema is None:
            return not self.kind.is_custom and self.name in _WHOLE_MAPS
        return self.schema.get("x-kubernetes-map-type") == "atomic"


def _shape_of(kind: Kind) -> _Shape:
    return _Shape(kind, kind.schema if kind.is_custom else None)


# ------------------------------------------------------------------ fields that are stated


def stated_paths(kind: Kind, body: JsonObject) -> set[Path]:
    """The paths of all leaves and keyed items of an applied configuration."""
    return set(_paths(body, (), _shape_of(kind))) - _IDENTITY


def _paths(value: Any, path: Path, shape: _Shape) -> Iterator[Path]:  # noqa: ANN401
    if isinstance(value, dict) and value and not shape.is_whole:
        for name, inner in value.items():
            if inner is not None:
                yield from _paths(inner, (*path, _FIELD + name), shape.at(name))
    elif isinstance(value, list) and value and shape.keys is not None:
        for item in value:
            step = _item_step(item, shape.keys)
            yield (*path, step)
            if isinstance(item, dict):
                yield from _paths(item, (*path, step), shape.item)
    elif path:
        yield path


def _item_step(item: Any, keys: tuple[str, ...]) -> str:  # noqa: ANN401
    if not keys or not isinstance(item, dict):
        return _TEXT + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    values = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(keys)}
    return _ITEM + json.dumps(values, separators=(",", ":"), ensure_ascii=False)


def _place(items: list[Any], step: str) -> int | None:
    """The index of the item that a step of a path selects; None if it is absent."""
    wanted = json.loads(step[len(_ITEM) :])
    for index, item in enumerate(items):
        if step.startswith(_TEXT):
            if item == wanted:
                return index
        elif isinstance(item, dict) and all(
            item.get(key, _KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
        ):
            return index
    return None


_ABSENT: Final = object()


def _value_at(body: Any, path: Path) -> Any:  # noqa: ANN401
    value = body
    for step in path:
        if step.startswith(_FIELD):
            name = step.removeprefix(_FIELD)
            if not isinstance(value, dict) or name not in value:
                return _ABSENT
            value = value[name]
        else:
            index = _place(value, step) if isinstance(value, list) else None
            if index is None:
                return _ABSENT
            value = value[index]
    return value


def _order(path: Path) -> list[tuple[bool, str]]:
    """Sort key for the API server's order: at each level, paths that end there come first."""
    last = len(path) - 1
    return [(index < last, step) for index, step in enumerate(path)]


def path_text(path: Path) -> str:
    """A path as in the message of a conflict: `.status.conditions[type="Ready"].status`."""
    text = ""
    for step in path:
        if step.startswith(_FIELD):
            text += f".{step.removeprefix(_FIELD)}"
        elif step.startswith(_TEXT):
            text += f"[={step.removeprefix(_TEXT)}]"
        else:
            keys = json.loads(step.removeprefix(_ITEM))
            text += "[" + ",".join(f"{key}={json.dumps(keys[key])}" for key in sorted(keys)) + "]"
    return text


# ------------------------------------------------------------------ managers


@dataclass(frozen=True, slots=True)
class Manager:
    name: str
    subresource: str = ""

    def __str__(self) -> str:
        """The manager as in the message of a conflict."""
        text = json.dumps(self.name, ensure_ascii=False)
        return f'{text} with subresource "{self.subresource}"' if self.subresource else text


@dataclass(frozen=True, slots=True)
class _Claim:
    paths: frozenset[Path]
    time: str


def _claims(body: JsonObject) -> dict[Manager, _Claim]:
    claims = {}
    for entry in body["metadata"].get("managedFields") or ():
        manager = Manager(entry["manager"], entry.get("subresource", ""))
        paths = frozenset(_unfolded(entry.get("fieldsV1") or {}, ()))
        claims[manager] = _Claim(paths, entry.get("time", ""))
    return claims


def _unfolded(fields: JsonObject, path: Path) -> Iterator[Path]:
    if path and (not fields or _SELF in fields):
        yield path
    for step, inner in fields.items():
        if step != _SELF:
            yield from _unfolded(inner, (*path, step))


def _folded(paths: frozenset[Path]) -> JsonObject:
    fields: JsonObject = {}
    for path in sorted(paths):
        node = fields
        for step in path:
            node = node.setdefault(step, {})
        node[_SELF] = {}
    return _without_lone_marks(fields)


def _without_lone_marks(fields: JsonObject) -> JsonObject:
    """Remove the mark `.` from leaves. Only an item that also has fields needs it."""
    if fields.keys() == {_SELF}:
        return {}
    return {step: _without_lone_marks(inner) for step, inner in fields.items()}


def _with_claims(kind: Kind, body: JsonObject, claims: Mapping[Manager, _Claim]) -> JsonObject:
    entries = [
        {
            "manager": manager.name,
            "operation": "Apply",
            "apiVersion": kind.resource.api_version,
            "time": claim.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _folded(claim.paths),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, claim in sorted(
            claims.items(), key=lambda each: (each[0].subresource, each[1].time, each[0].name)
        )
        if claim.paths
    ]
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if entries:
        metadata["managedFields"] = entries
    return {**body, "metadata": metadata}


def disowned(kind: Kind, old: JsonObject, new: JsonObject) -> JsonObject:
    """The object after a write that is no apply: managers lose the fields it changed."""
    claims = _claims(old)
    if not claims:
        return new
    kept = {
        manager: _Claim(
            frozenset(p for p in claim.paths if _same(_value_at(old, p), _value_at(new, p))),
            claim.time,
        )
        for manager, claim in claims.items()
    }
    return new if kept == claims else _with_claims(kind, new, kept)


def _same(old: Any, new: Any) -> bool:  # noqa: ANN401
    """Whether a leaf is unchanged. Items that are objects count as unchanged if they exist."""
    if isinstance(old, dict) and isinstance(new, dict):
        return True
    return bool(old == new)


# ------------------------------------------------------------------ applying


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of an apply: the object, or conflicts as pairs of manager and path."""

    body: JsonObject
    conflicts: tuple[tuple[str, str], ...] = ()


def applied(
    kind: Kind, live: JsonObject, config: JsonObject, manager: Manager, *, force: bool, now: str
) -> Applied:
    """Merge a manager's configuration into the live object."""
    claims = _claims(live)
    wanted = stated_paths(kind, config)
    disputed: list[tuple[Manager, Path]] = [
        (other, path)
        for other, claim in claims.items()
        if other != manager
        for path in claim.paths & wanted
        if not _same(_value_at(live, path), _value_at(config, path))
    ]
    if disputed and not force:
        disputed.sort(key=lambda each: (str(each[0]), _order(each[1])))
        shown = tuple((str(other), path_text(path)) for other, path in disputed)
        return Applied(body=live, conflicts=shown)
    for other, path in disputed:
        claim = claims[other]
        claims[other] = _Claim(claim.paths - {path}, claim.time)
    previous = claims.pop(manager, _Claim(frozenset(), ""))
    foreign = {path for claim in claims.values() for path in claim.paths}
    body = _merged(live, config, _shape_of(kind))
    for path in sorted(previous.paths - wanted, key=len):
        if not any(other[: len(path)] == path for other in foreign | wanted):
            _take_out(body, path)
    is_same = previous.paths == wanted
    claims[manager] = _Claim(frozenset(wanted), previous.time if is_same else now)
    return Applied(body=_with_claims(kind, body, claims))


def _merged(live: Any, config: Any, shape: _Shape) -> Any:  # noqa: ANN401
    if isinstance(live, dict) and isinstance(config, dict) and not shape.is_whole:
        result = {name: copied(value) for name, value in live.items()}
        for name, value in config.items():
            if value is not None:
                result[name] = _merged(live.get(name), value, shape.at(name))
        return result
    if isinstance(live, list) and isinstance(config, list) and shape.keys is not None:
        items = copied(live)
        for item in config:
            index = _place(items, _item_step(item, shape.keys))
            if index is None:
                items.append(copied(item))
            else:
                items[index] = _merged(items[index], item, shape.item)
        return items
    return copied(config)


def _take_out(body: Any, path: Path) -> None:  # noqa: ANN401
    """Remove a field or an item, and its parents that become empty."""
    holder = _value_at(body, path[:-1])
    last = path[-1]
    if isinstance(holder, dict):
        holder.pop(last.removeprefix(_FIELD), None)
    elif isinstance(holder, list):
        index = _place(holder, last)
        if index is not None:
            del holder[index]
    if len(path) > 1 and isinstance(holder, dict | list) and not holder:
        _take_out(body, path[:-1])
