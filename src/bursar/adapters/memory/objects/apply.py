"""Server-side apply: who manages which field, and what happens when two want the same one.

A manager states the fields it cares about. What it stated before and no longer
states is removed, unless somebody else states it, too; a field of which another
manager wants a different value is a conflict, unless the change is forced.

Only appliers are remembered. A field written by any other patch has no manager
here, while the API server would name the writer's program; but such a write
takes the field away from appliers, as there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.patches import JsonObject, copied

Path: TypeAlias = tuple[str, ...]
"""Steps as in `fieldsV1`: `f:<name>`, `k:{"name":"c"}` for an item, `v:"text"` for a text."""

_FIELD: Final = "f:"
_ITEM: Final = "k:"
_TEXT: Final = "v:"
_SELF: Final = "."

# What identifies an object is not managed by anybody.
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
"""Lists of built-in kinds whose items are told apart by these keys; others are one value."""
_WHOLE_MAPS: Final = frozenset({"matchLabels", "nodeSelector", "selector", "scopeSelector"})
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_METADATA_LISTS: Final = frozenset({"finalizers", "ownerReferences"})


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is known of a field's structure, by its name or by a custom kind's schema."""

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
        """What tells a list's items apart: nothing but themselves in a set; None in an atom."""
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
    """Every field an applied configuration states, leaves and keyed items."""
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
    """Where in a list the item of a path's step is."""
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
    """As the server lists paths: at each level what ends there comes first."""
    last = len(path) - 1
    return [(index < last, step) for index, step in enumerate(path)]


def path_text(path: Path) -> str:
    """A path as conflicts show it: `.status.conditions[type="Ready"].status`."""
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
        """As conflicts name it."""
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
    """A leaf is an empty object; the mark is needed only where there are parts as well."""
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
    """The object after another kind of write: appliers no longer manage what it changed."""
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
    """Whether a leaf is unchanged; of an item with parts only that it is still there."""
    if isinstance(old, dict) and isinstance(new, dict):
        return True
    return bool(old == new)


# ------------------------------------------------------------------ applying


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply came to: the object, or the conflicts as manager and path."""

    body: JsonObject
    conflicts: tuple[tuple[str, str], ...] = ()


def applied(
    kind: Kind, live: JsonObject, config: JsonObject, manager: Manager, *, force: bool, now: str
) -> Applied:
    """Lay a manager's configuration over the live object."""
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
    """Remove a field or an item, and whatever holds nothing afterwards."""
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
