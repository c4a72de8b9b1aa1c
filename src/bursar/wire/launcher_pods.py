"""What a launcher pod of KubeVirt says about its VM."""

import re
from dataclasses import replace
from typing import Final

from bursar.core.kubevirt.launchers import LauncherFacts
from bursar.core.kubevirt.names import COMPUTE_CONTAINER, GROUP, MIGRATION_NAME_ANNOTATION, VMI_KIND
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import ALWAYS_COUNTED, PodDemand
from bursar.core.model.resources import NOTHING
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

    None if the first owner of the pod is not a VirtualMachineInstance, or the pod cannot be read.
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
    owner = next(iter(meta.owner_references or ()), None)
    if owner is None or owner.kind != VMI_KIND:
        return None
    if (owner.api_version or "").partition("/")[0] != GROUP:
        return None
    name, uid = owner.name or "", owner.uid or ""
    if not _NAME.fullmatch(name) or not _UID.fullmatch(uid):
        return None
    migration = (meta.annotations or {}).get(MIGRATION_NAME_ANNOTATION) or ""
    if is_wide(pod):
        pod = restricted(pod, ALWAYS_COUNTED)  # It is not counted as a VM; see `VmCounter.count`.
    return LauncherFacts(
        name,
        uid,
        migration if _NAME.fullmatch(migration) else "",
        PodDemand.of(_compute_only(wire_pod.to_core(pod))),
    )


def _compute_only(pod: Pod) -> Pod:
    compute = [each for each in pod.containers if each.name == COMPUTE_CONTAINER]
    return replace(
        pod, containers=tuple(compute[:1]), init_containers=(), resources=None, overhead=NOTHING
    )
