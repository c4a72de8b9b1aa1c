"""The top-level owner of a pod: the Deployment, not the ReplicaSet; the CronJob, not the Job."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from bursar.core.model.pod import Pod

POD: Final = "Pod"
REPLICA_SET: Final = "ReplicaSet"
DEPLOYMENT: Final = "Deployment"
TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
"""Set by the Deployment controller on ReplicaSets and pods. ReplicaSets end their names with it."""
DEPTH_MAX: Final = 8
"""Owners of owners that are followed at most, since references may form a circle."""


class Owner(NamedTuple):
    """The kind, namespace and name of an object that owns pods."""

    namespace: str
    kind: str
    name: str


Controllers: TypeAlias = Mapping[Owner, Owner]
"""The controller of each object that has one and was read."""


def top_owner(pod: Pod, controllers: Controllers) -> Owner:
    """The object at the top of the chain of controllers; the pod itself if it has none.

    A ReplicaSet that was not read belongs to the Deployment that its name begins with.
    """
    if not pod.controller_name:
        return Owner(pod.namespace, POD, pod.name)
    owner = Owner(pod.namespace, pod.controller_kind, pod.controller_name)
    if owner not in controllers:
        return _deployment_of(pod, owner)
    for _ in range(DEPTH_MAX):
        above = controllers.get(owner)
        if above is None:
            break
        owner = above
    return owner


def _deployment_of(pod: Pod, owner: Owner) -> Owner:
    text = pod.labels.get(TEMPLATE_HASH_LABEL, "")
    name = owner.name.removesuffix(f"-{text}")
    if owner.kind != REPLICA_SET or not text or name == owner.name:
        return owner
    return Owner(owner.namespace, DEPLOYMENT, name)
