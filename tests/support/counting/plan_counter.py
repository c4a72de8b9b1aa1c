"""A pod counter that depends on objects: it charges pods by the plan that an annotation names."""

import json
from typing import Any

from bursar.app.cluster.ports import Resource
from bursar.app.counting.feeds import Counting, CountingPart, WatchedKind
from bursar.core.counting.counter import Counted, Pending, fact_of
from bursar.core.counting.kind_state import KindState
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from support.builders.manifests import a_manifest
from support.builders.pods import parsed

ANNOTATION = "example.com/plan"
SEATS = "seats/plan"
"""The name that it charges while there are plans."""
PLANS = Resource("example.com", "v1", "plans", kind="Plan")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "plans.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "plans", "singular": "plan", "kind": "Plan"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def a_plan(where: str, seats: int) -> dict[str, Any]:
    return a_manifest("example.com/v1", "Plan", where, spec={"seats": seats})


def with_plan(plan: str) -> dict[str, Any]:
    """Metadata of a pod that names a plan."""
    return {"annotations": {ANNOTATION: plan}}


class PlanName(str):
    """The fact that is kept of a pod."""

    __slots__ = ()


class PlanCounter:
    """Charges the seats of the plan. Pods that name no plan are not its own."""

    name = "plans"

    def __init__(self) -> None:
        self.state = KindState.SYNCING
        self.plans: dict[str, int] = {}
        self.pods: dict[PodKey, PodRow] = {}

    def derive_facts(self, body: bytes) -> PlanName | None:
        plan = (json.loads(body)["metadata"].get("annotations") or {}).get(ANNOTATION)
        return None if plan is None else PlanName(plan)

    def see_pod(self, row: PodRow) -> list[PodRow]:
        self.pods[PodKey(row.namespace, row.name)] = row
        return []

    def lose_pod(self, pod: PodKey) -> list[PodRow]:
        self.pods.pop(pod, None)
        return []

    def count(self, row: PodRow) -> Counted | Pending | None:
        assert PodKey(row.namespace, row.name) in self.pods, "it was not told of the pod"
        plan = fact_of(row, PlanName)
        if plan is None or self.state is KindState.ABSENT:
            return None
        if self.state is KindState.SYNCING:
            return Pending("plans are not listed")
        if plan not in self.plans:
            return Pending(f"there is no plan {plan}")
        seats = self.plans[plan]
        return Counted(parsed(f"{SEATS}={seats}"), f"plan {plan}: {seats} seats")

    def may_charge(self, resource: str) -> bool:
        return resource == SEATS and self.state is not KindState.ABSENT

    def set_state(self, state: KindState) -> list[PodRow]:
        self.state = state
        if state is not KindState.SYNCED:
            self.plans.clear()
        return list(self.pods.values())

    def see(self, plan: tuple[str, int]) -> list[PodRow]:
        self.plans[plan[0]] = plan[1]
        return list(self.pods.values())

    def lose(self, plan: tuple[str, int]) -> list[PodRow]:
        del self.plans[plan[0]]
        return list(self.pods.values())


def decode_plan(body: bytes) -> tuple[str, int]:
    plan = json.loads(body)
    seats = plan["spec"]["seats"]
    if not isinstance(seats, int):
        raise ValueError("spec.seats: a number is expected")  # noqa: TRY004 - as all decoders do
    return plan["metadata"]["name"], seats


def plan_counting(*, is_named_by_pods: bool = False) -> Counting:
    counter = PlanCounter()
    kind = WatchedKind(
        resource=PLANS,
        decode=decode_plan,
        see=counter.see,
        lose=counter.lose,
        set_state=counter.set_state,
        is_named_by_pods=is_named_by_pods,
    )
    return Counting.of([CountingPart(counter=counter, kinds=(kind,))])
