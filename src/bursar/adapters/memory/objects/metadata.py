"""Rules for `metadata`: names, uids, timestamps, labels, owners, creation and deletion."""

import random
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from bursar.adapters.memory import errors
from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import Key, Preconditions
from bursar.core.model.names import label_errors, qualified_name_errors, subdomain_errors
from bursar.core.model.problem import Problem, forbidden, invalid, quoted, required
from bursar.core.model.selectors.selector import label_value_errors
from bursar.wire.structs.fields import timestamp

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's letters for generated names. They form no words and look different."""
_SUFFIX_LENGTH: Final = 5
_GENERATED_NAME_MAX: Final = 63
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "foregroundDeletion", "orphan"})
_NOT_QUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"
_IMMUTABLE: Final = "field is immutable"

# Only the server sets these. Values in a created object are dropped.
_OWNED_AT_CREATION: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
    "managedFields",
)
_TEXTS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_TEXT_MAPS: Final = ("labels", "annotations")
_MAPS: Final = ("data", "binaryData", "stringData")
"""Maps of built-in kinds that are not stored when they are empty."""
_DROPPED_WHEN_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences", "name")


def new_uid(source: random.Random) -> str:
    return str(uuid.UUID(int=source.getrandbits(128), version=4))


def tidied(kind: Kind, body: JsonObject) -> JsonObject:
    """The object with valid metadata and without empty fields. Raises `InvalidError` (400)."""
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.undecodable(kind.resource, None, "metadata: an object is expected")
    metadata = {
        name: value
        for name, value in metadata.items()
        if value is not None and (value or name not in _DROPPED_WHEN_EMPTY)
    }
    detail = next(_misshapen(metadata), None)
    if detail is not None:
        raise errors.undecodable(kind.resource, None, detail)
    rest = {
        name: value
        for name, value in body.items()
        if name not in {"metadata", "status"} and (value or name not in _MAPS or kind.is_custom)
    }
    tidy = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": metadata,
        **(rest if kind.is_custom else without_nulls(rest)),
    }
    if kind.has_spec:
        tidy.setdefault("spec", {})
    if body.get("status") is not None:
        tidy["status"] = body["status"]
    return tidy


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value without nulls: the API server treats a null as an absent field."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def _misshapen(metadata: JsonObject) -> Iterator[str]:
    for name in _TEXTS:
        if not isinstance(metadata.get(name, ""), str):
            yield f"metadata.{name}: a string is expected"
    for name in _TEXT_MAPS:
        texts = metadata.get(name, {})
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            yield f"metadata.{name}: strings by name are expected"
    finalizers = metadata.get("finalizers", [])
    if not isinstance(finalizers, list) or not all(isinstance(each, str) for each in finalizers):
        yield "metadata.finalizers: a list of strings is expected"
    owners = metadata.get("ownerReferences", [])
    if not isinstance(owners, list) or not all(isinstance(each, dict) for each in owners):
        yield "metadata.ownerReferences: a list of objects is expected"


# ------------------------------------------------------------------ the beginning


def named(body: JsonObject, namespace: str, source: random.Random) -> JsonObject:
    """The object to create, with a name made from `generateName` if it has no name."""
    metadata = {
        name: value for name, value in body["metadata"].items() if name not in _OWNED_AT_CREATION
    }
    prefix = metadata.get("generateName", "")
    if prefix and "name" not in metadata:
        suffix = "".join(source.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
        metadata["name"] = prefix[: _GENERATED_NAME_MAX - _SUFFIX_LENGTH] + suffix
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def born(kind: Kind, body: JsonObject, now: datetime, source: random.Random) -> JsonObject:
    """The object with the metadata that the server sets at creation."""
    metadata = dict(body["metadata"])
    metadata.setdefault("uid", new_uid(source))
    metadata.setdefault("creationTimestamp", timestamp(now))
    if kind.counts_generation:
        metadata["generation"] = 1
    return {**body, "metadata": metadata}


def creation_problems(kind: Kind, metadata: JsonObject) -> list[Problem]:
    problems: list[Problem] = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        masked = f"{prefix[:-1]}a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        problems += [
            invalid("metadata.generateName", prefix, error) for error in _name_errors(kind, masked)
        ]
    if not name:
        problems.append(required("metadata.name", "name or generateName is required"))
    problems += [
        invalid("metadata.name", name, error) for error in _name_errors(kind, name) if name
    ]
    return problems + _content_problems(kind, metadata)


def _name_errors(kind: Kind, name: str) -> tuple[str, ...]:
    return label_errors(name) if kind.has_label_name else subdomain_errors(name)


def _content_problems(kind: Kind, metadata: JsonObject) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in sorted(metadata.get("labels", {}).items()):
        problems += [invalid("metadata.labels", key, error) for error in qualified_name_errors(key)]
        problems += [
            invalid("metadata.labels", value, error) for error in label_value_errors(value)
        ]
    for key in sorted(metadata.get("annotations", {})):
        problems += [
            invalid("metadata.annotations", key, error)
            for error in qualified_name_errors(key.lower())
        ]
    problems += _owner_problems(metadata.get("ownerReferences", []))
    for index, finalizer in enumerate(metadata.get("finalizers", [])):
        errors = qualified_name_errors(finalizer)
        problems += [invalid("metadata.finalizers", finalizer, error) for error in errors]
        is_plain = "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
        if not errors and is_plain and not kind.has_free_finalizers:
            problems.append(invalid(f"metadata.finalizers[{index}]", finalizer, _NOT_QUALIFIED))
    return problems


def _owner_problems(owners: list[JsonObject]) -> Iterator[Problem]:
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(f"metadata.ownerReferences.{name}", "", "must not be empty")


# ------------------------------------------------------------------ changes


def with_server_fields(old: JsonObject, new: JsonObject) -> JsonObject:
    """The changed object with the metadata that writers cannot change."""
    was, metadata = old["metadata"], dict(new["metadata"])
    for name in ("generation", "creationTimestamp", "managedFields"):
        metadata.pop(name, None)
        if name in was:
            metadata[name] = was[name]
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"):
        if name in was:
            metadata.setdefault(name, was[name])
    metadata.pop("selfLink", None)
    metadata["resourceVersion"] = was["resourceVersion"]
    return {**new, "metadata": metadata}


def update_problems(kind: Kind, old: JsonObject, new: JsonObject) -> list[Problem]:
    """Validation errors of changed metadata."""
    problems: list[Problem] = []
    added = [name for name in new.get("finalizers", []) if name not in old.get("finalizers", [])]
    if "deletionTimestamp" in old and added:
        shown = ", ".join(quoted(name) for name in sorted(added))
        problems.append(
            forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{shown}}}",
            )
        )
    problems += [
        invalid(f"metadata.{name}", new.get(name), _IMMUTABLE)
        for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(name) != old.get(name)
    ]
    return problems + _content_problems(kind, new)


def require_revision(kind: Kind, key: Key, wanted: str, current: int) -> None:
    """Raise `ConflictError` if the write has another resourceVersion than the object."""
    if not wanted and kind.needs_revision:
        cause = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        message = f"{kind.resource} {quoted(key.name)} is invalid: {cause}"
        raise errors.invalid_text(kind.resource, key, message, (cause,))
    if not wanted or wanted == str(current):
        return
    if not wanted.isdecimal():
        detail = f"strconv.ParseUint: parsing {quoted(wanted)}: invalid syntax"
        raise errors.server_fault(kind.resource, key, detail)
    raise errors.conflict(str(kind.resource), kind.resource, key)


# ------------------------------------------------------------------ the end


def require_preconditions(
    kind: Kind, key: Key, metadata: JsonObject, wanted: Preconditions | None
) -> None:
    """Raise `ConflictError` if the preconditions do not hold."""
    if wanted is None:
        return
    subject = errors.group_kind(kind.resource)
    uid, revision = metadata["uid"], metadata["resourceVersion"]
    if wanted.uid and wanted.uid != uid:
        detail = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(subject, kind.resource, key, detail)
    if wanted.resource_version and wanted.resource_version != revision:
        detail = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match "
            f"the ResourceVersion in record ({revision}). The object might have been modified"
        )
        raise errors.conflict(subject, kind.resource, key, detail)


def marked_deleted(body: JsonObject, now: datetime, grace_seconds: int | None) -> JsonObject:
    """The object with `deletionTimestamp`, and with the grace period if the kind has one."""
    metadata = dict(body["metadata"])
    end = now + timedelta(seconds=grace_seconds or 0)
    metadata["deletionTimestamp"] = timestamp(end)
    if grace_seconds is not None:
        metadata["deletionGracePeriodSeconds"] = grace_seconds
    if "generation" in metadata:
        metadata["generation"] += 1
    return {**body, "metadata": metadata}


def with_shorter_grace(
    body: JsonObject, now: datetime, grace_seconds: int | None
) -> JsonObject | None:
    """The deleted object with a shorter grace period; None if it is not shorter."""
    metadata = dict(body["metadata"])
    left = metadata.get("deletionGracePeriodSeconds", 0)
    if grace_seconds is None or grace_seconds >= left:
        return None
    planned = datetime.fromisoformat(metadata["deletionTimestamp"])
    end = planned - timedelta(seconds=left) + timedelta(seconds=grace_seconds)
    if end < now:
        end, grace_seconds = now, min(grace_seconds, 1)
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    return {**body, "metadata": metadata}


def is_released(kind: Kind, body: JsonObject) -> bool:
    """Whether an object is being deleted and has neither finalizers nor grace period left."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return not kind.is_graceful or metadata.get("deletionGracePeriodSeconds", 0) == 0
