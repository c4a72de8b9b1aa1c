"""The steps of a creation or a change, from the request to the stored object.

Each step is a pure function of the object. `store` calls them, runs admission between them and
retries if the object changed meanwhile. The numbers behind "Raises" are HTTP status codes.
"""

import random
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bursar.adapters.memory import defaults, errors, pods, quotas
from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects import apply, metadata
from bursar.adapters.memory.objects.objects import Objects
from bursar.adapters.memory.objects.patches import (
    JsonObject,
    PatchError,
    copied,
    json_patched,
    merge_patched,
)
from bursar.app.cluster.kinds import (
    BINDINGS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    RESIZE,
    RESOURCE_QUOTAS,
)
from bursar.app.cluster.ports import Json, Key, Patch, PatchKind
from bursar.core.model.problem import invalid, quoted
from bursar.wire.structs.fields import timestamp

STATUS: Final = "status"
_NAMES_TRIED: Final = 8


def received(kind: Kind, key: Key | None, body: Json) -> JsonObject:
    """A copy of the object to create, checked for its kind. Raises (400, 422)."""
    resource = kind.resource
    if not isinstance(body, dict):
        raise errors.bad_request(resource, key, "an object is expected")
    stated = body.get("kind") or "", body.get("apiVersion") or ""
    if kind.is_custom and not stated[0]:
        detail = f"the object provided is unrecognized (must be of type {resource.kind})"
        raise errors.bad_request(resource, key, f"{detail}: Object 'Kind' is missing")
    if kind.is_custom and stated[0] != resource.kind and stated[1] == resource.api_version:
        cause = f"kind: Invalid value: {quoted(stated[0])}: must be {resource.kind}"
        name = str((body.get("metadata") or {}).get("name") or "")
        message = f"{stated[0]}.{resource.group} {quoted(name)} is invalid: {cause}"
        raise errors.invalid_text(resource, Key("", name), message, (cause,))
    if stated[0] not in {"", resource.kind} or stated[1] not in {"", resource.api_version}:
        version = stated[1].rpartition("/")[2]
        detail = f'{stated[0]} in version "{version}" cannot be handled as a {resource.kind}'
        raise errors.bad_request(resource, key, detail)
    return metadata.tidied(kind, copied(body))


def binding_of(body: Json) -> tuple[str, str]:
    """The names of a binding's pod and node. Raises `InvalidError` (400)."""
    binding = copied(body)
    try:
        name, node = binding["metadata"]["name"], binding["target"]["name"]
    except (KeyError, TypeError):
        detail = "a binding names a pod and a target"
        raise errors.bad_request(BINDINGS, None, detail) from None
    return str(name), str(node)


# ------------------------------------------------------------------ creation


def named(
    kind: Kind, body: JsonObject, namespace: str, objects: Objects, source: random.Random
) -> tuple[Key, JsonObject]:
    """The object with its name; `generateName` gives an unused one. Raises (400)."""
    stated = body["metadata"].get("namespace", "")
    if not kind.resource.is_namespaced:
        namespace = ""
    if stated and stated != namespace:
        detail = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise errors.bad_request(kind.resource, None, detail)
    if kind.resource.is_namespaced and not namespace:
        detail = "an empty namespace may not be set during creation"
        raise errors.bad_request(kind.resource, None, detail)
    candidate = metadata.named(body, namespace, source)
    tries = 1
    while objects.current(kind, _key(namespace, candidate)) is not None and tries < _NAMES_TRIED:
        candidate = metadata.named(body, namespace, source)
        tries += 1
    return _key(namespace, candidate), candidate


def _key(namespace: str, body: JsonObject) -> Key:
    return Key(namespace, body["metadata"].get("name", ""))


def require_creatable(kind: Kind, key: Key, objects: Objects) -> None:
    """Raise `NotFoundError` or `ForbiddenError` if namespace or kind accept no new objects."""
    if objects.is_ending(kind):
        detail = "create not allowed while custom resource definition is terminating"
        raise errors.forbidden(kind.resource, key, detail)
    if not kind.resource.is_namespaced:
        return
    terminating = objects.is_terminating(key.namespace)
    if terminating is None:
        raise errors.namespace_not_found(kind.resource, key)
    if terminating:
        detail = (
            f"unable to create new content in namespace {key.namespace} because it is being "
            "terminated"
        )
        raise errors.forbidden(kind.resource, key, detail)


def require_deletable(kind: Kind, key: Key) -> None:
    if kind.resource == NAMESPACES and key.name in defaults.UNDELETABLE_NAMESPACES:
        raise errors.forbidden(kind.resource, key, "this namespace may not be deleted")


def proposed(kind: Kind, key: Key, body: JsonObject, objects: Objects) -> JsonObject:
    """The object before admission: with defaults, without a uid."""
    if kind.has_status and not kind.status_at_creation:
        body = {name: value for name, value in body.items() if name != STATUS}
    if kind.resource == PODS:
        body = pods.admitted(pods.read_pod(body, key).body, key, objects)
    return body


def created(
    kind: Kind, key: Key, body: JsonObject, now: datetime, source: random.Random
) -> JsonObject:
    """The new object as stored. Raises `InvalidError`."""
    body = metadata.tidied(kind, body)
    problems = metadata.creation_problems(kind, body["metadata"])
    if kind.resource == PODS:
        document = pods.read_pod(body, key)
        problems += pods.creation_problems(document)
        body = pods.with_first_status(document, now)
    elif kind.resource == RESOURCE_QUOTAS:
        problems += quotas.creation_problems(body, key)
    if problems:
        raise errors.invalid(kind.resource, key, problems)
    return metadata.born(kind, defaults.created(kind, body, now), now, source)


# ------------------------------------------------------------------ changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object and subresource that a patch changes."""

    kind: Kind
    key: Key
    subresource: str

    def __post_init__(self) -> None:
        known = {""} | ({STATUS} if self.kind.has_status else set())
        if self.kind.resource == PODS:
            known.add(RESIZE)
        if self.subresource not in known:
            if self.kind.is_custom:
                raise errors.not_found(self.kind.resource, self.key)
            raise errors.unknown_kind(self.kind.resource)


def patched(target: Target, live: JsonObject, patch: Patch, now: datetime) -> JsonObject:
    """The live object after the patch, before checks. Raises (400, 409, 422)."""
    kind, key = target.kind, target.key
    if patch.kind is PatchKind.APPLY:
        return _applied(target, live, patch, now)
    if patch.kind is PatchKind.MERGE:
        if not isinstance(patch.body, dict):
            raise errors.bad_request(kind.resource, key, "error decoding patch: not an object")
        merged: JsonObject = merge_patched(live, patch.body)
        return merged
    if not isinstance(patch.body, list | tuple):
        raise errors.bad_request(kind.resource, key, "error decoding patch: not a list")
    try:
        return json_patched(live, patch.body)
    except PatchError:
        raise errors.patch_rejected(kind.resource, key) from None


def configuration(target: Target, patch: Patch) -> JsonObject:
    """The object in the body of an apply patch, checked. Raises (400, 422)."""
    kind, key = target.kind, target.key
    if not patch.field_manager:
        cause = "fieldManager: Required value: is required for apply patch"
        message = f'PatchOptions.meta.k8s.io "" is invalid: {cause}'
        raise errors.invalid_text(kind.resource, key, message, (cause,))
    config = copied(patch.body)
    resource = kind.resource
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (
        resource.api_version,
        resource.kind,
    ):
        raise errors.bad_request(resource, key, f"invalid object type: {_kind_text(config)}")
    stated = config.get("metadata") or {}
    if not stated.get("name"):
        detail = (
            f"the name of the object ({key.name} based on URL) was undeterminable: name must be "
            "provided"
        )
        raise errors.bad_request(resource, key, detail)
    if stated.get("managedFields") is not None:
        raise errors.bad_request(resource, key, "metadata.managedFields must be nil")
    if target.subresource == STATUS:
        return {
            name: config[name]
            for name in ("apiVersion", "kind", "metadata", STATUS)
            if name in config
        }
    if kind.has_status:
        config.pop(STATUS, None)
    return config


def _kind_text(config: object) -> str:
    """The group, version and kind of a configuration, in the API server's notation."""
    stated = config if isinstance(config, dict) else {}
    group, _, version = str(stated.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={stated.get('kind') or ''}"


def applied_new(target: Target, patch: Patch, now: datetime) -> JsonObject:
    """The object that an apply patch creates. Raises (400, 422)."""
    config = configuration(target, patch)
    uid = config["metadata"].get("uid")
    if uid:
        resource = target.kind.resource
        detail = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was "
            "found"
        )
        raise errors.conflict(str(resource), resource, target.key, detail)
    empty: JsonObject = {
        "apiVersion": config["apiVersion"],
        "kind": config["kind"],
        "metadata": {},
    }
    body = _applied(target, empty, patch, now)
    _require_identity(target.kind, target.key, body)
    fields = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    return {**body, "metadata": fields}


def _applied(target: Target, live: JsonObject, patch: Patch, now: datetime) -> JsonObject:
    outcome = apply.applied(
        target.kind,
        live,
        configuration(target, patch),
        apply.Manager(patch.field_manager, target.subresource),
        force=patch.is_forced,
        now=timestamp(now),
    )
    if outcome.conflicts:
        raise errors.apply_conflict(target.kind.resource, target.key, outcome.conflicts)
    return outcome.body


def changed(target: Target, old: JsonObject, new: JsonObject, *, is_applied: bool) -> JsonObject:
    """The object with the changes that the writer can make. Raises (400, 409, 422, 500)."""
    kind, key = target.kind, target.key
    _require_identity(kind, key, new)
    metadata.require_revision(
        kind,
        key,
        new["metadata"].get("resourceVersion") or "",
        int(old["metadata"]["resourceVersion"]),
    )
    managed = new["metadata"].get("managedFields") if is_applied else None
    new = metadata.with_server_fields(old, metadata.tidied(kind, new))
    if is_applied:
        new = _with_managed(new, managed)
    return _scoped(target, old, new)


def _with_managed(body: JsonObject, managed: object) -> JsonObject:
    fields = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if managed:
        fields["managedFields"] = managed
    return {**body, "metadata": fields}


def _require_identity(kind: Kind, key: Key, new: JsonObject) -> None:
    resource = kind.resource
    fields = new.get("metadata")
    if not isinstance(fields, dict):
        raise errors.patch_rejected(resource, key)
    if (new.get("kind"), new.get("apiVersion")) != (resource.kind, resource.api_version):
        raise errors.invalid_text(resource, key, ' "" is invalid: patch: the kind cannot change')
    name = fields.get("name")
    if name not in {None, "", key.name}:
        detail = f"the name of the object ({name}) does not match the name on the URL ({key.name})"
        raise errors.bad_request(resource, key, detail)
    if fields.get("namespace") not in {None, "", key.namespace}:
        detail = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise errors.bad_request(resource, key, detail)


def _scoped(target: Target, old: JsonObject, new: JsonObject) -> JsonObject:
    """The change limited to the subresource: its own fields from `new`, all others from `old`."""
    kind = target.kind
    if target.subresource == RESIZE:
        return {**old, "spec": new.get("spec") or {}}
    if target.subresource == STATUS:
        return {**_with_status(old, new), "metadata": _status_metadata(kind, old, new)}
    return _with_status(new, old) if kind.has_status else new


def _with_status(body: JsonObject, holder: JsonObject) -> JsonObject:
    kept = {name: value for name, value in body.items() if name != STATUS}
    return {**kept, STATUS: holder[STATUS]} if STATUS in holder else kept


def _status_metadata(kind: Kind, old: JsonObject, new: JsonObject) -> JsonObject:
    """A status update of a built-in kind changes labels and annotations; of a custom kind not."""
    was: JsonObject = old["metadata"]
    now: JsonObject = new["metadata"]
    if kind.is_custom:
        now = {**was}
        if "managedFields" in new["metadata"]:
            now["managedFields"] = new["metadata"]["managedFields"]
        return now
    if kind.resource == DEPLOYMENTS:
        now = {name: value for name, value in now.items() if name != "labels"}
        return {**now, "labels": was["labels"]} if "labels" in was else now
    return now


def validated(target: Target, old: JsonObject, new: JsonObject) -> JsonObject:
    """The changed object with defaults. Raises `InvalidError`."""
    kind, key = target.kind, target.key
    new = defaults.changed(kind, metadata.tidied(kind, new))
    problems = metadata.update_problems(kind, old["metadata"], new["metadata"])
    if kind.resource == PODS:
        before, after = pods.read_pod(old, key), pods.read_pod(new, key)
        if target.subresource == RESIZE:
            new, found = pods.resized(before, after)
            problems += found
        elif target.subresource == STATUS:
            problems += pods.status_problems(old, new)
        else:
            new = after.body
            problems += pods.update_problems(before, after)
    elif kind.resource == RESOURCE_QUOTAS and target.subresource != STATUS:
        problems += quotas.creation_problems(new, key)
    if kind.is_custom and new["kind"] != kind.resource.kind:
        problems.append(invalid("kind", new["kind"], f"must be {kind.resource.kind}"))
    if problems:
        raise errors.invalid(kind.resource, key, problems)
    return new


def with_generation(target: Target, old: JsonObject, new: JsonObject) -> JsonObject:
    """The object with the next generation, if its spec changed."""
    kind = target.kind
    if "generation" not in old["metadata"] or not kind.counts_generation:
        return new
    apart = {"metadata", STATUS} if kind.has_status else {"metadata"}
    was = {name: value for name, value in old.items() if name not in apart}
    now = {name: value for name, value in new.items() if name not in apart}
    is_next = was != now or (
        kind.annotations_count
        and old["metadata"].get("annotations") != new["metadata"].get("annotations")
    )
    if not is_next:
        return new
    generation = old["metadata"]["generation"] + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}
