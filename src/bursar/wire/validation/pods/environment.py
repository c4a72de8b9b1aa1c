"""Rules for environment variables, and for references to fields of the pod."""

import re
from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import label_errors, qualified_name_errors, subdomain_errors
from bursar.core.model.problem import Problem, invalid, not_supported, required
from bursar.wire.validation.formats import (
    config_key_errors,
    each_invalid,
    env_name_errors,
    without_backsteps,
)
from bursar.wire.validation.section import Section

ENV_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_PATHS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = tuple(
    f"{side}.{name}"
    for side in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT: Final = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_KNOWN_LABELS: Final = frozenset(
    {*ENV_PATHS, "metadata.annotations", "metadata.labels", "spec.restartPolicy"}
    | {"spec.schedulerName", "status.phase", "spec.host"}
)
_SUBSCRIPTED: Final = frozenset({"metadata.annotations", "metadata.labels"})
_SOURCES: Final = (
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
)


def environment(container: Section) -> Iterator[Problem]:
    for variable in container.items("env"):
        if name := variable.text("name"):
            yield from each_invalid(variable.at("name"), name, env_name_errors(name))
        else:
            yield required(variable.at("name"))
        yield from _value_from(variable)
    yield from _environment_from(container)


def _value_from(variable: Section) -> Iterator[Problem]:
    source = variable.maybe_child("valueFrom")
    if source is None:
        return
    if field := source.maybe_child("fieldRef"):
        yield from field_reference(field, ENV_PATHS)
    if resource := source.maybe_child("resourceFieldRef"):
        yield from resource_reference(resource, in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if key := source.maybe_child(name):
            yield from _key_reference(key)
    if file := source.maybe_child("fileKeyRef"):
        yield from _file_reference(file)
    count = sum(source.has(name) for name in _SOURCES)
    if not count:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        yield invalid(source.path, "", detail)
    elif variable.text("value"):
        yield invalid(source.path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(source.path, "", "may not have more than one field specified at a time")


def _environment_from(container: Section) -> Iterator[Problem]:
    for source in container.items("envFrom"):
        if prefix := source.text("prefix"):
            yield from each_invalid(source.at("prefix"), prefix, env_name_errors(prefix))
        named = [source.maybe_child(name) for name in ("configMapRef", "secretRef")]
        for reference in named:
            if reference is not None:
                yield from _named(reference)
        count = sum(reference is not None for reference in named)
        field = container.at("envFrom")
        if not count:
            yield invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
        elif count > 1:
            yield invalid(field, "", "may not have more than one field specified at a time")


def _named(reference: Section) -> Iterator[Problem]:
    if not (name := reference.text("name")):
        yield required(reference.at("name"))
        return
    # The server checks these names like prefixes: a dash at the end is let through.
    masked = f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name
    yield from each_invalid(reference.at("name"), name, subdomain_errors(masked))


def _key_reference(reference: Section) -> Iterator[Problem]:
    name, key = reference.text("name"), reference.text("key")
    yield from each_invalid(reference.at("name"), name, subdomain_errors(name))
    if key:
        yield from each_invalid(reference.at("key"), key, config_key_errors(key))
    else:
        yield required(reference.at("key"))


def _file_reference(reference: Section) -> Iterator[Problem]:
    if key := reference.text("key"):
        yield from each_invalid(reference.at("key"), key, env_name_errors(key))
    else:
        yield required(reference.at("key"))
    if volume := reference.text("volumeName"):
        yield from each_invalid(reference.at("volumeName"), volume, label_errors(volume))
    else:
        yield required(reference.at("volumeName"))
    if path := reference.text("path"):
        yield from without_backsteps(reference.at("path"), path)
    else:
        yield required(reference.at("path"))


# ------------------------------------------------------------------ references to the pod itself


def field_reference(reference: Section, allowed: tuple[str, ...]) -> Iterator[Problem]:
    """A `fieldRef`. Its apiVersion is v1 by default."""
    version, path = reference.text("apiVersion") or "v1", reference.text("fieldPath")
    if not path:
        yield required(reference.at("fieldPath"))
        return
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        yield invalid(reference.at("fieldPath"), path, detail)
        return
    match = _SUBSCRIPT.fullmatch(path)
    base, key = (path, None) if match is None else match.groups()
    if base not in (_KNOWN_LABELS if key is None else _SUBSCRIPTED):
        shown = (
            f"field label not supported: {path}"
            if key is None
            else f"field label does not support subscript: {path}"
        )
        yield invalid(reference.at("fieldPath"), path, f"error converting fieldPath: {shown}")
    elif key is not None:
        named = key.lower() if base == "metadata.annotations" else key
        yield from each_invalid(reference.path, named, qualified_name_errors(named))
    else:
        base = "spec.nodeName" if base == "spec.host" else base
        if base not in allowed:
            yield not_supported(reference.at("fieldPath"), base, allowed)


def resource_reference(reference: Section, *, in_volume: bool) -> Iterator[Problem]:
    """A `resourceFieldRef`; one in a volume has to name its container."""
    resource = reference.text("resource")
    if in_volume and not reference.text("containerName"):
        yield required(reference.at("containerName"))
    elif not resource:
        yield required(reference.at("resource"))
    elif resource not in _RESOURCES and not resource.startswith(_PAGES):
        yield not_supported(reference.at("resource"), resource, _RESOURCES)
    yield from _divisor(reference, resource)


_SIZES: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def _divisor(reference: Section, resource: str) -> Iterator[Problem]:
    divisor = reference.quantity("divisor")
    if divisor is None or divisor.nanos == 0:
        return
    kind = resource.partition(".")[2]
    if resource.startswith(_PAGES):
        allowed, words = _SIZES, "hugepages"
    elif resource not in _RESOURCES:
        return
    elif kind == "cpu":
        allowed, words = "1m and 1", "cpu"
    else:
        allowed = _SIZES
        words = "local ephemeral storage" if kind == "ephemeral-storage" else kind
    if str(divisor) not in re.split(r", | and ", allowed):
        detail = f"only divisor's values {allowed} are supported with the {words} resource"
        yield invalid(reference.at("divisor"), resource, detail)
