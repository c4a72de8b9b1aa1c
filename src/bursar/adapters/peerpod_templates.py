"""Pods that workloads in files would make, rewritten as if they had been made.

A webhook never sees the workload, only its pods. So the template is taken out, given what an
API server fills in, and treated as any other pod of the files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bursar.adapters.peerpod_files import FileObject, as_sent
from bursar.core.peerpods.json_document import JsonObject
from bursar.core.peerpods.rewriting import is_peer_pod, rewrite
from bursar.core.peerpods.settings import PeerPodSettings

_IN_SPEC: Final = ("spec", "template")
_TEMPLATES: Final = {
    ("apps/v1", "Deployment"): _IN_SPEC,
    ("apps/v1", "ReplicaSet"): _IN_SPEC,
    ("apps/v1", "StatefulSet"): _IN_SPEC,
    ("apps/v1", "DaemonSet"): _IN_SPEC,
    ("v1", "ReplicationController"): _IN_SPEC,
    ("batch/v1", "Job"): _IN_SPEC,
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("v1", "PodTemplate"): ("template",),
}
KINDS_READ: Final = ("Pod", *(kind for _, kind in _TEMPLATES))


def with_templates(
    objects: Iterable[FileObject], settings: PeerPodSettings
) -> Iterator[FileObject]:
    """The same objects; a workload with what becomes of the pods it makes."""
    for each in objects:
        pod = _pod_of(each.written)
        if is_peer_pod(pod, settings):
            yield replace(each, rewriting=rewrite(as_sent(pod), settings))
        else:
            yield each


def _pod_of(workload: JsonObject) -> JsonObject:
    """Empty for what makes no pods. The shape of those that do was checked as they were read."""
    holder = workload
    for key in _TEMPLATES.get((str(workload.get("apiVersion")), str(workload.get("kind"))), ()):
        inner = holder.get(key)
        if not isinstance(inner, dict):
            return {}
        holder = inner
    if holder is workload:
        return {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": holder.get("metadata") or {},
        "spec": holder.get("spec") or {},
    }
