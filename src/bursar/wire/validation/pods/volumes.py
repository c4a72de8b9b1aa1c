"""Rules for a pod's volumes: their names, that each has one type, and files made from the pod."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import bytes_of, label_errors, subdomain_errors
from bursar.core.model.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    required,
)
from bursar.wire.validation.formats import each_invalid, file_mode, unreserved_path
from bursar.wire.validation.pods.environment import (
    VOLUME_PATHS,
    field_reference,
    resource_reference,
)
from bursar.wire.validation.pods.sources import SOURCES, key_to_path, needs, pull_policy
from bursar.wire.validation.section import Section

ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""The server checks the first type of a volume in this order, and refuses further ones."""

_OTHER_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
"""Upstream names these types differently in some messages."""
_OTHER_EXTRAS: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_TOKEN_LEAST_S: Final = 600
_TOKEN_MOST_S: Final = 1 << 32


def volumes(spec: Section, *, pod_name: str, is_pod: bool) -> tuple[list[Problem], set[str]]:
    """The problems of all volumes, and the names of those without one: containers can mount them.

    `pod_name` is empty for a template, whose pods have names of their own.
    """
    found: list[Problem] = []
    names: set[str] = set()
    created = {
        f"{pod_name}-{volume.text('name')}"
        for volume in spec.items("volumes")
        if pod_name and volume.has("ephemeral")
    }
    for volume in spec.items("volumes"):
        name = volume.text("name")
        problems = [*_source(volume, pod_name, is_pod=is_pod), *_name(volume, name)]
        if name in names:
            problems.append(duplicate(volume.at("name"), name))
        if not problems:
            names.add(name)
        found += problems
        claim = volume.child("persistentVolumeClaim")
        if claim.text("claimName") in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(invalid(claim.at("claimName"), claim.text("claimName"), detail))
    return found, names


def block_volumes(spec: Section) -> set[str]:
    """The names of volumes that can be used as block devices."""
    return {
        volume.text("name")
        for volume in spec.items("volumes")
        if volume.has("persistentVolumeClaim") or volume.has("ephemeral")
    }


def _name(volume: Section, name: str) -> Iterator[Problem]:
    if name:
        yield from each_invalid(volume.at("name"), name, label_errors(name))
    else:
        yield required(volume.at("name"))


def _source(volume: Section, pod_name: str, *, is_pod: bool) -> Iterator[Problem]:
    """Check the type of a volume. One without a type becomes an emptyDir by default."""
    given = [kind for kind in ORDER if volume.maybe_child(kind) is not None]
    for position, kind in enumerate(given):
        if position:
            field = volume.at(_OTHER_EXTRAS.get(kind, kind))
            yield forbidden(field, "may not specify more than 1 volume type")
        else:
            source = Section(volume.child(kind).value, volume.at(_OTHER_PATHS.get(kind, kind)))
            yield from _of_kind(kind, source, is_pod=is_pod)
        if kind == "iscsi":
            yield from _portal(volume)
    if given[:1] == ["ephemeral"] and pod_name and volume.text("name"):
        name = volume.text("name")
        claim = f"{pod_name}-{name}"
        for error in subdomain_errors(claim):
            yield invalid(volume.at("name"), name, f'PVC name "{claim}": {error}')


def _portal(volume: Section) -> Iterator[Problem]:
    name, source = volume.text("name"), volume.child("iscsi")
    length = bytes_of(f"{name}:{source.text('targetPortal')}")
    if source.has("initiatorName") and length > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
            "if iscsi.initiatorName is specified."
        )
        yield invalid(volume.at("name"), name, detail)


def _of_kind(kind: str, source: Section, *, is_pod: bool) -> Iterator[Problem]:
    match kind:
        case "downwardAPI":
            yield from file_mode(source.at("defaultMode"), source.maybe_number("defaultMode"))
            for item in source.items("items"):
                yield from _pod_file(Section(item.value, source.path))
        case "projected":
            yield from file_mode(source.at("defaultMode"), source.maybe_number("defaultMode"))
            yield from _projected(source)
        case "image":
            if is_pod:
                yield from needs("reference")(source)
            yield from pull_policy(source.at("pullPolicy"), source.text("pullPolicy"))
        case _:
            yield from SOURCES[kind](source)


def _pod_file(item: Section) -> Iterator[Problem]:
    """A file with a field of the pod. Upstream leaves the index out of these paths."""
    path, field = item.text("path"), item.maybe_child("fieldRef")
    resource = item.maybe_child("resourceFieldRef")
    yield from needs("path")(item)
    yield from unreserved_path(item.at("path"), path)
    if field is not None:
        yield from field_reference(field, VOLUME_PATHS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(item.path, "resource", detail)
    elif resource is not None:
        yield from resource_reference(resource, in_volume=True)
    else:
        yield required(item.path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(item.at("mode"), item.maybe_number("mode"))


# ------------------------------------------------------------------ projected volumes


class _Paths:
    """The paths of a projected volume, each of which may occur once."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._seen: set[str] = set()

    def add(self, path: str, named: str) -> Iterator[Problem]:
        if path in self._seen:
            yield invalid(self._field, named, "conflicting duplicate paths")
        if path:
            self._seen.add(path)


def _projected(volume: Section) -> Iterator[Problem]:
    """Check the sources. Those behind feature gates that are off are dropped by the server."""
    paths = _Paths(volume.path)
    for source in volume.items("sources"):
        count = 0
        for kind in ("secret", "configMap"):
            if (files := source.maybe_child(kind)) is not None:
                count += 1
                yield from needs("name")(files)
                for item in files.items("items"):
                    yield from key_to_path(item)
                    yield from paths.add(item.text("path"), files.text("name"))
        if (pod := source.maybe_child("downwardAPI")) is not None:
            count += 1
            for item in pod.items("items"):
                yield from _pod_file(Section(item.value, pod.path))
                yield from paths.add(item.text("path"), item.text("path"))
        if (token := source.maybe_child("serviceAccountToken")) is not None:
            count += 1
            yield from _token(token, volume)
        if count > 1:
            detail = "may not specify more than 1 volume type per source"
            yield forbidden(source.path, detail)


def _token(token: Section, volume: Section) -> Iterator[Problem]:
    seconds, field = token.maybe_number("expirationSeconds"), token.at("expirationSeconds")
    if seconds is not None and seconds < _TOKEN_LEAST_S:
        yield invalid(field, seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _TOKEN_MOST_S:
        yield invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
    if path := token.text("path"):
        yield from unreserved_path(volume.at("path"), path)
    else:
        yield required(volume.at("path"))
