"""Another counter on a cluster: it reads an annotation, and is ready later than the pods."""

import json

from bursar.app.quota.drift import DriftCheck
from bursar.app.quota.views.read_model import holders, view_of
from bursar.core.quota.account import Charge
from bursar.core.quota.counting import IndependentPods, NativeCounter, NotReady
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import Reason
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.pods import parsed
from support.builders.quota_books import a_key
from support.quota.quota_loop import HOME, a_quota_loop
from support.virtual_time import in_virtual_time

PLAN = "example.com/plan"


class PlanCounter(IndependentPods):
    """Charges the CPUs of the plan that the pod's annotation names; plans come one by one."""

    def __init__(self) -> None:
        self.plans: dict[str, Charge] = {}
        self.asked = 0
        self._native = NativeCounter()
        self._pods: dict[str, set[PodKey]] = {}

    def derive_facts(self, body: bytes) -> str | None:
        return json.loads(body)["metadata"].get("annotations", {}).get(PLAN)

    def count(self, row):
        self.asked += 1
        if row.facts is None:
            return self._native.count(row)
        self._pods.setdefault(row.facts, set()).add(PodKey(row.namespace, row.name))
        charge = self.plans.get(row.facts)
        if charge is None:
            provisional = self._native.count(row)
            return NotReady(detail=f"plan {row.facts}", provisional=provisional)
        return charge

    def offer(self, plan: str, cpu: str) -> None:
        self.plans[plan] = Charge(parsed(f"requests.cpu={cpu}"))
        self.recount(self._pods.get(plan, set()))

    def withdraw(self, plan: str) -> None:
        del self.plans[plan]
        self.recount(self._pods[plan])


def used(scene) -> str:
    covered = scene.books.coverage.quota(a_key(f"{HOME}/q"))
    return str(covered.accounts["requests.cpu"].used)


@in_virtual_time
async def test_a_pod_waits_until_its_plan_is_known_and_is_charged_by_it():
    counter = PlanCounter()
    async with a_quota_loop(counter=counter) as scene:
        counter.recount = scene.loop.recount
        await scene.set_quota("q", requests_cpu="4")
        await scene.create_pod("plain", "1")
        await scene.create_pod("gold", "1", **{PLAN: "gold"})
        await scene.rest()
        assert used(scene) == "1"
        assert scene.waits[-1].refusals[0].reason is Reason.NOT_COUNTED
        reasons = view_of(scene.books).reasons
        assert reasons[PodKey(HOME, "gold")].endswith("not known yet: plan gold")

        counter.offer("gold", "3")
        await scene.rest()
        assert used(scene) == "4"

        check = DriftCheck(scene.loop, scene.sources, counter.count, scene.clock)
        counter.withdraw("gold")
        await check.check()
        assert (used(scene), check.latest.accounts) == ("4", 0)

        counter.offer("gold", "2")
        await scene.rest()
        assert used(scene) == "3"
        largest = holders(scene.books, a_key(f"{HOME}/q"), "requests.cpu", 5)
        assert [(str(pod), str(amount)) for pod, amount in largest] == [
            (f"{HOME}/gold", "2"),
            (f"{HOME}/plain", "1"),
        ]
        assert holders(scene.books, a_key(f"{HOME}/q"), "memory", 5) == []
        assert holders(scene.books, a_key(f"{HOME}/other"), "memory", 5) == []


@in_virtual_time
async def test_a_recount_asks_only_about_the_pods_that_are_named():
    counter = PlanCounter()
    async with a_quota_loop(counter=counter) as scene:
        counter.recount = scene.loop.recount
        await scene.set_quota("q", requests_cpu="400")
        for number in range(50):
            await scene.create_pod(f"plain-{number}", "1")
        await scene.create_pod("gold", "1", **{PLAN: "gold"})
        counter.offer("gold", "3")
        await scene.rest()

        before = counter.asked
        counter.offer("gold", "2")
        counter.recount([PodKey(HOME, "unknown")])
        await scene.rest()

        assert (used(scene), counter.asked - before) == ("52", 1)


def test_rows_hold_facts_only_if_a_counter_derives_them():
    body = json.dumps(
        {"metadata": {"namespace": "a", "name": "p", "annotations": {PLAN: "gold"}}, "spec": {}}
    ).encode()
    native = PodRowDecoder().decode(body)
    assert (native.extras, native.facts) == (None, None)

    derived = PodRowDecoder(PlanCounter().derive_facts).decode(body)

    assert (derived.facts, derived.deletion) == ("gold", None)
    assert derived._replace(extras=None) == native
