"""What a launcher pod of KubeVirt says about its VM."""

import re
from typing import Final

from bursar.core.kubevirt.launchers import LauncherFacts
from bursar.core.kubevirt.names import (
    APP_LABEL,
    COMPUTE_CONTAINER,
    GROUP,
    LAUNCHER,
    MIGRATION_NAME_ANNOTATION,
    MIGRATION_UID_LABEL,
    VMI_KIND,
)
from bursar.core.model.pod_row import ALWAYS_COUNTED, PodDemand
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.wide_demand import is_wide, restricted
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.metadata import ObjectMeta

_MENTION: Final = f'"{VMI_KIND}"'.encode()
# The API server checks neither length nor characters of owner references and annotations, and
# both are kept in memory and shown to people. No object has another name or uid than these.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_UID: Final = re.compile(r"[-0-9a-zA-Z]{1,128}", re.ASCII)


def derive_launcher_facts(body: bytes) -> LauncherFacts | None:
    """What a launcher pod says about its VM.

    None if the pod does not have the label of launcher pods, if its first owner is not a
    VirtualMachineInstance, or if the pod cannot be read.
    """
    # Few pods belong to VMs, and a search of the bytes costs a hundredth of decoding them.
    if _MENTION not in body:
        return None
    try:
        return _launcher_facts(decode_body(body, wire_pod.Pod))
    except ValueError:
        return None


def _launcher_facts(pod: wire_pod.Pod) -> LauncherFacts | None:
    meta = pod.metadata or ObjectMeta()
    labels = meta.labels or {}
    if labels.get(APP_LABEL) != LAUNCHER:
        return None
    owner = next(iter(meta.owner_references or ()), None)
    if owner is None or owner.kind != VMI_KIND:
        return None
    if (owner.api_version or "").partition("/")[0] != GROUP:
        return None
    name, uid = owner.name or "", owner.uid or ""
    if not _NAME.fullmatch(name) or not _UID.fullmatch(uid):
        return None
    migration_uid = labels.get(MIGRATION_UID_LABEL) or ""
    migration = (meta.annotations or {}).get(MIGRATION_NAME_ANNOTATION) or ""
    compute = _compute_only(pod)
    if is_wide(compute):
        restricted(compute, ALWAYS_COUNTED)  # It is not counted as a VM; see `VmCounter.count`.
    return LauncherFacts(
        name,
        uid,
        migration_uid if _UID.fullmatch(migration_uid) else "",
        migration if _NAME.fullmatch(migration) else "",
        PodDemand.of(wire_pod.to_core(compute)),
    )


def _compute_only(pod: wire_pod.Pod) -> wire_pod.Pod:
    """The pod as if its container `compute` were the only one, without resources of its own.

    A tenant can write thousands of other containers, so these are not translated.
    """
    spec = pod.spec or wire_pod.PodSpec()
    compute = [each for each in spec.containers or () if each.name == COMPUTE_CONTAINER]
    status = pod.status or wire_pod.PodStatus()
    return wire_pod.Pod(
        spec=wire_pod.PodSpec(containers=compute[:1]),
        status=wire_pod.PodStatus(
            conditions=status.conditions, container_statuses=status.container_statuses
        ),
    )
