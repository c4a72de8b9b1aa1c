"""Objects without what may be secret: for bug reports, and for work without the cluster.

What is kept is what Bursar computes with, and names. What a tenant may have put a secret into is
removed: values of environment variables, arguments, commands, probes, most annotations, data of
ConfigMaps, and what containers wrote when they ended. Secrets are never kept.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from bursar.app.cluster.ports import Json

Object: TypeAlias = dict[str, Json]

REMOVED: Final = "<removed>"
"""Stands for a text that was removed."""

_ANNOTATION_PREFIXES: Final = (
    *("bursar.io/", "aaq.kubevirt.io/", "kata.peerpods.io/", "kubevirt.io/"),
    *("io.katacontainers.", "kubernetes.io/config.", "scheduling.koordinator.sh/"),
)
"""Annotations that Bursar reads. None of them is meant for secrets."""
_SUSPICIOUS: Final = re.compile(
    r"last-applied|token|secret|passw|credential|cookie|private|apikey|api-key|auth", re.IGNORECASE
)
_DROPPED_METADATA: Final = frozenset({"managedFields", "selfLink"})
_DROPPED_SPEC: Final = frozenset({"hostAliases", "imagePullSecrets", "dnsConfig"})
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_DROPPED_IN_CONTAINERS: Final = frozenset(
    {"envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
)
_VOLUMES_KEPT: Final = frozenset({"name", "emptyDir", "persistentVolumeClaim"})
"""Parts of a volume that are kept as they are. Of any other only the type is kept."""
_DATA: Final = ("data", "binaryData", "stringData")


def redacted(value: Mapping[str, Json], selected_by: Iterable[str] = ()) -> Object | None:
    """The object without what may be secret; None for one that is a secret.

    `selected_by` are the keys of annotations by which quotas select namespaces.
    """
    kind = value.get("kind")
    if kind == "Secret":
        return None
    kept: Object = {name: part for name, part in value.items() if name not in _DATA}
    kept["metadata"] = _metadata(_object(value, "metadata"), _keeps(kind, frozenset(selected_by)))
    if kind == "Pod":
        kept |= _pod(value)
    elif "spec" in value:
        kept["spec"] = _with_templates(_object(value, "spec"))
    if kind == "PodTemplate":
        kept["template"] = _template(_object(value, "template"))
    return kept


def _keeps(kind: Json, selected_by: frozenset[str]) -> Callable[[str], bool]:
    """Which annotations of an object are kept."""

    def keep(key: str) -> bool:
        if key in selected_by and kind == "Namespace":
            return True
        # `describe node` shows annotations of nodes, which tenants cannot write.
        return not _SUSPICIOUS.search(key) and (
            kind == "Node" or key.startswith(_ANNOTATION_PREFIXES)
        )

    return keep


def _metadata(metadata: Object, keep: Callable[[str], bool]) -> Object:
    kept = {name: part for name, part in metadata.items() if name not in _DROPPED_METADATA}
    annotations = {key: text for key, text in _object(metadata, "annotations").items() if keep(key)}
    kept.pop("annotations", None)
    if annotations:
        kept["annotations"] = annotations
    return kept


def _with_templates(spec: Object) -> Object:
    """The spec of a workload, with the pod template in it."""
    kept = dict(spec)
    if "template" in spec:
        kept["template"] = _template(_object(spec, "template"))
    if "jobTemplate" in spec:
        job = _object(spec, "jobTemplate")
        kept["jobTemplate"] = {"spec": _with_templates(_object(job, "spec"))}
    return kept


def _template(template: Object) -> Object:
    kept: Object = {"spec": _pod_spec(_object(template, "spec"))}
    if "metadata" in template:
        metadata = _object(template, "metadata")
        kept["metadata"] = _metadata(metadata, _keeps("Pod", frozenset()))
    return kept


def _pod(value: Mapping[str, Json]) -> Object:
    kept: Object = {"spec": _pod_spec(_object(value, "spec"))}
    if "status" in value:
        kept["status"] = _pod_status(_object(value, "status"))
    return kept


def _pod_spec(spec: Object) -> Object:
    kept = {name: part for name, part in spec.items() if name not in _DROPPED_SPEC}
    for name in _CONTAINER_LISTS:
        if name in spec:
            kept[name] = [_container(each) for each in _objects(spec, name)]
    if "volumes" in spec:
        kept["volumes"] = [_volume(each) for each in _objects(spec, "volumes")]
    return kept


def _container(container: Object) -> Object:
    kept = {name: part for name, part in container.items() if name not in _DROPPED_IN_CONTAINERS}
    for name in ("args", "command"):
        if name in container:
            kept[name] = [REMOVED]
    if "env" in container:
        kept["env"] = [
            {"name": each.get("name"), "value": REMOVED} for each in _objects(container, "env")
        ]
    return kept


def _volume(volume: Object) -> Object:
    return {name: part if name in _VOLUMES_KEPT else {} for name, part in volume.items()}


def _pod_status(status: Object) -> Object:
    kept = dict(status)
    for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        if name in status:
            kept[name] = [_container_status(each) for each in _objects(status, name)]
    return kept


def _container_status(status: Object) -> Object:
    """The status without what the container wrote into its termination message."""
    kept = dict(status)
    for name in ("state", "lastState"):
        ended = _object(_object(status, name), "terminated")
        if "message" in ended:
            kept[name] = {"terminated": {**ended, "message": REMOVED}}
    return kept


def _object(value: Mapping[str, Json], name: str) -> Object:
    part = value.get(name)
    return dict(part) if isinstance(part, Mapping) else {}


def _objects(value: Mapping[str, Json], name: str) -> list[Object]:
    parts = value.get(name)
    if not isinstance(parts, list | tuple):
        return []
    return [dict(each) for each in parts if isinstance(each, Mapping)]


def annotations_that_select(quotas: Iterable[Mapping[str, Json]]) -> frozenset[str]:
    """The keys of annotations by which cluster-wide quotas select namespaces."""
    return frozenset(
        key
        for quota in quotas
        for key in _object(_object(_object(quota, "spec"), "selector"), "annotations")
    )
