"""A short notation for peer pods as an API server sends them, and their rewriting."""

from typing import Any

from hypothesis import strategies as st

from bursar.adapters.memory.objects.patches import json_patched
from bursar.adapters.peerpod_files import as_sent
from bursar.app.install.peerpod_protection import BIND, KEEP
from bursar.app.install.peerpod_protection import RECORD as CHECK_RECORD
from bursar.core.model.defaulting import with_defaults
from bursar.core.peerpods.rewriting import Rewritten, rewrite
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from controlplane import ControlPlane
from support.pod_notation import listed, texts
from support.raw_objects import as_pod, pods

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


def rewritten(raw: dict[str, Any], settings: PeerPodSettings = EFFECTIVE) -> Rewritten:
    """What becomes of a pod that is rewritten; its patch is tried as well."""
    outcome = rewrite(raw, settings)
    assert isinstance(outcome, Rewritten), outcome
    assert json_patched(raw, list(outcome.steps)) == outcome.document
    return outcome


def sizes(outcome: Rewritten) -> str:
    """`"3 5120 -"`: vCPUs, MiB and GPUs as the pod's annotations have them."""
    held = outcome.document["metadata"].get("annotations", {})
    keys = ("default_vcpus", "default_memory", "default_gpus")
    return " ".join(held.get(KATA + key, "-") for key in keys)


def resources_of(outcome: Rewritten) -> list[Any]:
    spec = outcome.document["spec"]
    return [each["resources"] for each in [*spec["containers"], *spec.get("initContainers", [])]]


def remove_protection(plane: ControlPlane) -> None:
    """Take away the policies that keep what is written on peer pods; they have one name each."""
    for name in (KEEP, BIND, CHECK_RECORD):
        for kind in ("policybindings", "policies"):
            path = f"/apis/admissionregistration.k8s.io/v1/validatingadmission{kind}/{name}"
            plane.request("DELETE", path)


def sent(raw: dict[str, Any]) -> dict[str, Any]:
    """A pod of class kata-remote as an API server sends it, overhead included."""
    overhead = with_defaults(as_pod(raw)).overhead
    peer = {"runtimeClassName": "kata-remote", "overhead": texts(overhead)}
    return as_sent({**raw, "spec": {**raw["spec"], **peer}})


PEER_PODS: st.SearchStrategy[dict[str, Any]] = pods(resized=False).map(sent)
