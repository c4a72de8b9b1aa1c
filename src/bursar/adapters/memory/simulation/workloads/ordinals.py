"""StatefulSets: numbered pods that are created and deleted in order."""

from collections.abc import Sequence

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.workloads.effects import Delete, Effect, status_change
from bursar.adapters.memory.simulation.workloads.templates import (
    REVISION_LABEL,
    field,
    is_active,
    is_being_deleted,
    is_ready,
    new_pod,
    observed,
    revision_of,
    template_hash,
)
from bursar.app.cluster.kinds import PODS, STATEFUL_SETS


def decide_stateful_set(owner: Raw, pods: Sequence[Raw]) -> list[Effect]:
    name = owner["metadata"]["name"]
    revision = f"{name}-{template_hash(owner['spec']['template'])}"
    held = {pod["metadata"]["name"]: pod for pod in pods}
    wanted = _names(owner)
    effects = _moves(owner, held, wanted, revision)
    ready = sum(is_ready(pod) for pod in pods)
    updated = sum(revision_of(pod) == revision for pod in pods)
    status = {
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "currentReplicas": len(pods),
        "updatedReplicas": updated,
        "updateRevision": revision,
        "currentRevision": revision,
    }
    return effects + status_change(STATEFUL_SETS, owner, status | observed(owner))


def _names(owner: Raw) -> list[str]:
    start = (field(owner, "spec", "ordinals", {})).get("start", 0)
    count = field(owner, "spec", "replicas", 1)
    return [f"{owner['metadata']['name']}-{start + number}" for number in range(count)]


def _moves(owner: Raw, held: dict[str, Raw], wanted: list[str], revision: str) -> list[Effect]:
    """The effects that are allowed now. With ordered pod management that is one pod at a time."""
    in_order = field(owner, "spec", "podManagementPolicy", "OrderedReady") == "OrderedReady"
    moves: list[Effect] = []
    for name in wanted:
        pod = held.get(name)
        if pod is None:
            moves.append(_pod(owner, name, revision))
        elif not is_active(pod) and not is_being_deleted(pod):
            moves.append(Delete(resource=PODS, target=pod))
        if in_order and (moves or not is_ready(held[name])):
            return moves
    surplus = sorted((name for name in held if name not in wanted), key=_ordinal, reverse=True)
    moves += [
        Delete(resource=PODS, target=held[name])
        for name in surplus
        if not is_being_deleted(held[name])
    ]
    if in_order and surplus:
        return moves[:1] if not is_being_deleted(held[surplus[0]]) else []
    stale = [
        name for name in reversed(wanted) if name in held and revision_of(held[name]) != revision
    ]
    if stale and not moves and all(is_ready(pod) for pod in held.values()):
        moves.append(Delete(resource=PODS, target=held[stale[0]]))
    return moves


def _pod(owner: Raw, name: str, revision: str) -> Effect:
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
        REVISION_LABEL: revision,
    }
    return new_pod(
        STATEFUL_SETS,
        owner,
        name=name,
        labels=labels,
        spec={"hostname": name, "subdomain": field(owner, "spec", "serviceName", "")},
    )


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
