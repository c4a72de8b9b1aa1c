"""ReplicaSets, and rolling updates of Deployments."""

from collections.abc import Sequence
from typing import Final

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.workloads.effects import (
    Change,
    Create,
    Effect,
    status_change,
)
from bursar.adapters.memory.simulation.workloads.templates import (
    age,
    field,
    is_active,
    is_ready,
    new_pod,
    observed,
    owner_reference,
    scaled,
    template_hash,
)
from bursar.app.cluster.kinds import DEPLOYMENTS, REPLICA_SETS

HASH_LABEL: Final = "pod-template-hash"
DEFAULT_PERCENT: Final = 25
DEFAULT_SHARE: Final = f"{DEFAULT_PERCENT}%"


def decide_replica_set(owner: Raw, pods: Sequence[Raw]) -> list[Effect]:
    wanted: int = field(owner, "spec", "replicas", 1)
    active = [pod for pod in pods if is_active(pod)]
    effects = scaled(active, wanted, lambda: new_pod(REPLICA_SETS, owner))
    ready = sum(is_ready(pod) for pod in active)
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    return effects + status_change(REPLICA_SETS, owner, status | observed(owner))


def decide_deployment(owner: Raw, sets: Sequence[Raw]) -> list[Effect]:
    name = f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"
    current = next((held for held in sets if held["metadata"]["name"] == name), None)
    old = [held for held in sets if held is not current]
    wanted: int = field(owner, "spec", "replicas", 1)
    room, floor = _bounds(owner, wanted)
    old_count = sum(field(held, "spec", "replicas", 0) for held in old)
    new_count = max(0, min(wanted, room - old_count))
    effects: list[Effect] = []
    if current is None:
        effects.append(_new_set(owner, name, new_count))
    elif field(current, "spec", "replicas", 1) != max(new_count, _kept(current, wanted)):
        effects.append(_scaled(current, max(new_count, _kept(current, wanted))))
    ready = 0 if current is None else field(current, "status", "readyReplicas", 0)
    effects += _shrunk(old, max(0, floor - ready) if wanted else 0)
    return effects + status_change(DEPLOYMENTS, owner, _status(owner, sets, current))


def _bounds(owner: Raw, wanted: int) -> tuple[int, int]:
    """The most pods during a rolling update, and the fewest ready ones."""
    strategy = field(owner, "spec", "strategy", {})
    if strategy.get("type") == "Recreate":
        return wanted, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", DEFAULT_SHARE), wanted, is_rounded_up=True)
    missing = _share(rolling.get("maxUnavailable", DEFAULT_SHARE), wanted, is_rounded_up=False)
    if surge == 0 and missing == 0:
        missing = 1
    return wanted + surge, wanted - missing


def _share(raw: int | str, whole: int, *, is_rounded_up: bool) -> int:
    if isinstance(raw, int):
        return raw
    digits = raw.removesuffix("%")
    percent = int(digits) if digits.isdecimal() else DEFAULT_PERCENT
    return -(-whole * percent // 100) if is_rounded_up else whole * percent // 100


def _kept(current: Raw, wanted: int) -> int:
    """The replicas of the new ReplicaSet. A rolling update never lowers them."""
    return min(wanted, int(field(current, "spec", "replicas", 1)))


def _shrunk(old: Sequence[Raw], allowed: int) -> list[Effect]:
    """Scale old ReplicaSets down to `allowed` pods in total, the youngest set last."""
    effects: list[Effect] = []
    for held in sorted(old, key=age, reverse=True):
        have = field(held, "spec", "replicas", 0)
        keep = min(have, allowed)
        allowed -= keep
        if keep != have:
            effects.append(_scaled(held, keep))
    return effects


def _scaled(held: Raw, replicas: int) -> Change:
    return Change(resource=REPLICA_SETS, target=held, patch={"spec": {"replicas": replicas}})


def _new_set(owner: Raw, name: str, replicas: int) -> Create:
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    label = {HASH_LABEL: name.rpartition("-")[2]}
    labels = {**(meta.get("labels") or {}), **label}
    selector = owner["spec"].get("selector") or {}
    namespace = owner["metadata"].get("namespace", "")
    body = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(DEPLOYMENTS, owner)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), **label},
            },
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }
    return Create(resource=REPLICA_SETS, namespace=namespace, body=body)


def _status(owner: Raw, sets: Sequence[Raw], current: Raw | None) -> Raw:
    def total(name: str) -> int:
        return sum(field(held, "status", name, 0) for held in sets)

    ready = total("readyReplicas")
    return {
        "replicas": total("replicas"),
        "updatedReplicas": 0 if current is None else field(current, "status", "replicas", 0),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, field(owner, "spec", "replicas", 1) - ready),
    } | observed(owner)
