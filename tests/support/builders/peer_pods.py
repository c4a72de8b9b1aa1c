"""A short notation for peer pods as an API server sends them, and their rewriting."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from bursar.adapters.memory.objects.patches import json_patched
from bursar.app.install.policies.peerpod_protection import BIND, KEEP
from bursar.app.install.policies.peerpod_protection import RECORD as CHECK_RECORD
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.pod_row import PodDemand
from bursar.core.peerpods.annotations import Rewrite
from bursar.core.peerpods.decision import Decision
from bursar.core.peerpods.record import Record
from bursar.core.peerpods.restored import restored
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.core.peerpods.sizing import SizeTexts
from bursar.wire.peerpods.json_patch import patch_between
from bursar.wire.peerpods.rewrite import rewrite
from controlplane import ControlPlane
from support.builders.pods import listed, texts
from support.builders.random_objects import as_pod, pods

EFFECTIVE = PeerPodSettings()
UPSTREAM = PeerPodSettings(mode=Mode.UPSTREAM)
KATA = "io.katacontainers.config.hypervisor."
RECORD = "bursar.io/peerpod-removed"
VM = "kata.peerpods.io/vm"
ONE_VM = {"requests": {VM: "1"}, "limits": {VM: "1"}}


def sized(requests: str = "", limits: str = "") -> dict[str, Any]:
    """`resources` of a container, as an API server writes them: nothing empty in it."""
    sides = {"requests": listed(requests), "limits": listed(limits)}
    return {side: amounts for side, amounts in sides.items() if amounts}


def main(requests: str = "", limits: str = "", **fields: Any) -> dict[str, Any]:
    return {"image": "example.com/app", "resources": sized(requests, limits), **fields}


def init(requests: str = "", limits: str = "", **fields: Any) -> dict[str, Any]:
    return {**main(requests, limits, **fields), "init": True}


def sidecar(requests: str = "", limits: str = "", **fields: Any) -> dict[str, Any]:
    return init(requests, limits, restartPolicy="Always", **fields)


def a_peer_pod(
    *containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod of class kata-remote with containers c0, c1, ... and i0, i1, ... unless named."""
    named: dict[str, list[dict[str, Any]]] = {"c": [], "i": []}
    for container in containers:
        letter = "i" if container.get("init") else "c"
        fields = {key: value for key, value in container.items() if key != "init"}
        named[letter].append({"name": f"{letter}{len(named[letter])}", **fields})
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop"}
    if annotations:
        metadata["annotations"] = annotations
    body: dict[str, Any] = {"runtimeClassName": "kata-remote", "containers": named["c"]}
    if named["i"]:
        body["initContainers"] = named["i"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**body, **spec}}


def decided(raw: dict[str, Any], settings: PeerPodSettings = EFFECTIVE) -> Decision:
    return rewrite(raw, settings)[0]


@dataclass(frozen=True)
class Rewritten:
    """A pod after the rewrite; without steps the pod was as it should be."""

    document: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    size: SizeTexts
    instance: str
    warnings: tuple[str, ...]


def rewritten(raw: dict[str, Any], settings: PeerPodSettings = EFFECTIVE) -> Rewritten:
    """Rewrite a peer pod that must not be denied, and check that its patch does the same."""
    decision, document = rewrite(raw, settings)
    assert isinstance(decision, Rewrite), decision
    steps = patch_between(raw, document)
    assert json_patched(raw, list(steps)) == document
    return Rewritten(document, steps, decision.size, decision.instance, decision.warnings)


def sizes(outcome: Rewritten) -> str:
    """`"3 5120 -"`: vCPUs, MiB and GPUs as the pod's annotations have them."""
    held = outcome.document["metadata"].get("annotations", {})
    keys = ("default_vcpus", "default_memory", "default_gpus")
    return " ".join(held.get(KATA + key, "-") for key in keys)


def resources_of(outcome: Rewritten) -> list[Any]:
    spec = outcome.document["spec"]
    return [each["resources"] for each in [*spec["containers"], *spec.get("initContainers", [])]]


def recorded_demand(record: Record, pod: Pod) -> PodDemand:
    """What the pod asks for, as if nothing had been removed, and the VM besides."""
    return PodDemand.of(restored(record, pod))


def remove_protection(plane: ControlPlane) -> None:
    """Take away the policies that keep what is written on peer pods; they have one name each."""
    for name in (KEEP, BIND, CHECK_RECORD):
        for kind in ("policybindings", "policies"):
            path = f"/apis/admissionregistration.k8s.io/v1/validatingadmission{kind}/{name}"
            plane.request("DELETE", path)


def sent(raw: dict[str, Any]) -> dict[str, Any]:
    """A pod of class kata-remote as an API server sends it, overhead included."""
    stored = with_defaults(as_pod(raw))
    spec: dict[str, Any] = {
        **raw["spec"],
        "runtimeClassName": "kata-remote",
        "overhead": texts(stored.overhead),
    }
    for key, containers in (
        ("containers", stored.containers),
        ("initContainers", stored.init_containers),
    ):
        if containers:
            spec[key] = [
                {**each, "resources": in_texts(each.get("resources"), container.resources)}
                for each, container in zip(spec[key], containers, strict=True)
            ]
    if stored.resources is not None:
        spec["resources"] = in_texts(spec["resources"], stored.resources)
    return {**raw, "spec": spec}


def in_texts(raw: dict[str, Any] | None, stored: ResourceRequirements) -> dict[str, Any]:
    """`resources` with the stored amounts as texts, nothing empty among them."""
    sides = {"requests": texts(stored.requests), "limits": texts(stored.limits)}
    others = {key: value for key, value in (raw or {}).items() if key not in sides}
    return others | {side: amounts for side, amounts in sides.items() if amounts}


PEER_PODS: st.SearchStrategy[dict[str, Any]] = pods(resized=False).map(sent)
