"""What the objects of an embedded cluster say, counted naively."""

import json
from dataclasses import dataclass
from typing import Any

from bursar.app.cluster.kinds import NAMESPACES, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import Query, Resource
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.quota.kinds import APPLICATION_QUOTAS, APPLIED_CLUSTER_QUOTAS, CLUSTER_QUOTAS
from bursar.core.model.quantity import Quantity
from bursar.core.quota.targeting import GATING_LABEL

Raw = dict[str, Any]
ENDED = {"Succeeded", "Failed"}
POD_NAMES = {"pods", "requests.cpu", "requests.memory"}
"""Names of limits that the gate enforces."""
OTHER_NAMES = {"services", "count/secrets"}
"""Names of limits that Kubernetes enforces."""


@dataclass(frozen=True)
class Truth:
    """All objects at one time."""

    pods: list[Raw]
    namespaces: dict[str, Raw]
    own: list[Raw]
    wide: list[Raw]
    copies: list[Raw]
    managed: list[Raw]
    installed: list[Raw]

    # .............................................................. gating

    def is_targeted(self, namespace: str) -> bool:
        return GATING_LABEL in labels_of(self.namespaces[namespace])

    def is_selected(self, namespace: str) -> bool:
        """Whether an installed policy selects a namespace, or none is installed."""
        labels = labels_of(self.namespaces[namespace])
        selectors = [each["spec"]["matchResources"]["namespaceSelector"] for each in self.installed]
        if not selectors:
            return self.is_targeted(namespace)
        return any(selects(selector, labels) for selector in selectors)

    def is_gated(self, namespace: str) -> bool:
        return self.is_targeted(namespace) and self.is_selected(namespace)

    # .............................................................. quotas

    def quotas(self) -> list[Raw]:
        return self.own + self.wide

    def reach(self, quota: Raw) -> set[str]:
        if quota["kind"] == APPLICATION_QUOTAS.kind:
            return {quota["metadata"]["namespace"]} & self.namespaces.keys()
        wanted = (quota["spec"]["selector"].get("labels") or {}).get("matchLabels", {})
        return {
            name
            for name, each in self.namespaces.items()
            if wanted.items() <= labels_of(each).items()
        }

    def used(self, quota: Raw) -> dict[str, Quantity]:
        names = self.reach(quota)
        total = {name: Quantity.of(0) for name in hard_of(quota) if name in POD_NAMES}
        for pod in self.pods:
            if pod["metadata"]["namespace"] in names and is_in_use(pod) and covers(quota, pod):
                for name in total:
                    total[name] += cost_of(pod).get(name, Quantity.of(0))
        return total

    def quotas_of(self, pod: Raw) -> list[Raw]:
        namespace = pod["metadata"]["namespace"]
        found = (each for each in self.quotas() if namespace in self.reach(each))
        return [each for each in found if covers(each, pod)]

    def is_short(self, quota: Raw, pod: Raw) -> bool:
        used, hard = self.used(quota), hard_of(quota)
        cost = cost_of(pod)
        return any(
            not cost[name].is_zero and used[name] + cost[name] > Quantity.parse(hard[name])
            for name in used.keys() & cost.keys()
        )


def labels_of(raw: Raw) -> dict[str, str]:
    labels: dict[str, str] = raw["metadata"].get("labels", {})
    return labels


def selects(selector: Raw, labels: dict[str, str]) -> bool:
    """The two forms of a selector that the histories install, and the exemption of namespaces."""
    wanted = selector.get("matchLabels", {})
    present = [
        each["key"] for each in selector.get("matchExpressions", ()) if each["operator"] == "Exists"
    ]
    return wanted.items() <= labels.items() and all(key in labels for key in present)


def spec_of(quota: Raw) -> Raw:
    spec: Raw = quota["spec"]
    return spec if quota["kind"] == APPLICATION_QUOTAS.kind else spec["quota"]


def hard_of(quota: Raw) -> dict[str, str]:
    hard: dict[str, str] = spec_of(quota)["hard"]
    return hard


def covers(quota: Raw, pod: Raw) -> bool:
    has_deadline = "activeDeadlineSeconds" in pod["spec"]
    has_class = bool(pod["spec"].get("priorityClassName"))
    holds = {
        "Terminating": has_deadline,
        "NotTerminating": not has_deadline,
        "PriorityClass": has_class,
    }
    return all(holds[scope] for scope in spec_of(quota).get("scopes", ()))


def cost_of(pod: Raw) -> dict[str, Quantity]:
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    cost = {f"requests.{name}": Quantity.parse(amount) for name, amount in requests.items()}
    return cost | {"pods": Quantity.of(1)}


def is_waiting(pod: Raw) -> bool:
    is_ended = pod["status"].get("phase") in ENDED
    is_deleting = "deletionTimestamp" in pod["metadata"]
    return bool(pod["spec"].get("schedulingGates")) and not is_ended and not is_deleting


def is_in_use(pod: Raw) -> bool:
    """Pods that a finalizer keeps are deleted without a grace period here, and count no longer."""
    is_gone = pod["status"].get("phase") in ENDED or "deletionTimestamp" in pod["metadata"]
    return not pod["spec"].get("schedulingGates") and not is_gone


def ready_of(quota: Raw) -> Raw:
    conditions = quota.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Ready"), {})


async def read_all(cluster: Any, resource: Resource) -> list[Raw]:
    page = await cluster.list(resource, Query())
    return [json.loads(body) for body in page.items]


async def read_truth(cluster: Any) -> Truth:
    namespaces = await read_all(cluster, NAMESPACES)
    installed: list[Raw] = []
    for resource, name in CONFIGURATIONS[:1]:
        found = await read_all(cluster, resource)
        installed += [each for each in found if each["metadata"]["name"] == name]
    return Truth(
        pods=await read_all(cluster, PODS),
        namespaces={each["metadata"]["name"]: each for each in namespaces},
        own=await read_all(cluster, APPLICATION_QUOTAS),
        wide=await read_all(cluster, CLUSTER_QUOTAS),
        copies=await read_all(cluster, APPLIED_CLUSTER_QUOTAS),
        managed=await read_all(cluster, RESOURCE_QUOTAS),
        installed=installed,
    )
