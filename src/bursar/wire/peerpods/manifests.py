"""Peer pods in manifests: every object as it was written, and pods as the rewrite leaves them."""

from dataclasses import dataclass
from typing import Final

from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.peerpods.decision import Decision
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.documents.tree import Value
from bursar.wire.peerpods.json_patch import PatchStep, patch_between
from bursar.wire.peerpods.pod import object_in
from bursar.wire.peerpods.rewrite import rewrite

_IN_SPEC: Final = ("spec", "template")
_TEMPLATES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("v1", "Pod"): (),
    ("apps/v1", "Deployment"): _IN_SPEC,
    ("apps/v1", "ReplicaSet"): _IN_SPEC,
    ("apps/v1", "StatefulSet"): _IN_SPEC,
    ("apps/v1", "DaemonSet"): _IN_SPEC,
    ("v1", "ReplicationController"): _IN_SPEC,
    ("batch/v1", "Job"): _IN_SPEC,
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("v1", "PodTemplate"): ("template",),
}
"""The path of the pod template in each kind of workload; empty for a pod."""
KINDS_READ: Final = tuple(kind for _, kind in _TEMPLATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenManifest:
    """One object of a manifest, and the decision about it."""

    kind: str
    subject: str
    """Namespace and name."""
    written: dict[str, Value]
    decision: Decision | None
    """None if the object is not a pod, or a workload whose template was not looked at."""
    document: dict[str, Value]
    """The object to apply: as written, or the pod as the rewrite leaves it (not for a template)."""

    @property
    def patch(self) -> tuple[PatchStep, ...]:
        return patch_between(self.written, self.document)


def rewrite_manifest(
    written: dict[str, Value], settings: PeerPodSettings, *, templates: bool = False
) -> RewrittenManifest:
    """Rewrite the object if it is a peer pod.

    A workload is not changed: the webhook rewrites its pods when they are created. With
    `templates` the decision is about the pod that the workload creates.
    """
    metadata = object_in(written, "metadata", "metadata")
    name = metadata.get("name") or metadata.get("generateName") or ""
    decision: Decision | None = None
    pod = document = written
    path = _TEMPLATES.get((str(written.get("apiVersion")), str(written.get("kind"))))
    if path is not None and (templates or not path):
        for key in path:
            pod = object_in(pod, key, key)
        decision, document = rewrite(pod, settings, lacks_defaults=True)
    return RewrittenManifest(
        kind=str(written.get("kind")),
        subject=f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}",
        written=written,
        decision=decision,
        document=document,
    )
