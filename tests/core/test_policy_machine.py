"""Random lives of policies: after each change, the counter knows what a new counter would find.

The counter keeps answers and totals, and names the pods whose answer may have changed. A counter
that is told of everything anew must give the same charges and the same reports.
"""

import json
from random import Random

import pytest

from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.policies import PolicyCounter
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.counting import NotReady
from bursar.core.quota.ledger import PodKey
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import read_body
from bursar.wire.model.pod_row import PodRowDecoder
from support.cel.recorded import LANGUAGE
from support.counting.policies import SATURDAY, a_policy, pod_body
from support.seeds import one_quick

STEPS = 60
MATCHES = (
    "true",
    "object.metadata.name == 'p1'",
    "namespaceObject.metadata.labels.exists(k, k == 'a')",
    "now.getHours() > 15",
    "object.metadata.labels.x == 'y'",
    "native['requests.cpu'].isGreaterThan(quantity('1'))",
)
CHARGES = (
    "1",
    "object.metadata.labels.size()",
    "int(object.metadata.labels.n)",
    "native['requests.cpu']",
    "quantity('1.5')",
    "now.getMinutes()",
)


class Life:
    def __init__(self, seed):
        self.luck = Random(seed)  # noqa: S311 - repeatable
        self.now_s, self.version = SATURDAY, 0
        self.pods, self.policies, self.namespaces = {}, {}, {}
        self.charges = {}
        self.is_synced = False
        self.counter = PolicyCounter(LANGUAGE, keep_body, read_body)
        self.counter.set_time(self.now_s)
        self.counters = Counters((self.counter,))
        self.decode = PodRowDecoder(self.counters.derive_facts).decode

    def step(self):
        acts = [self.pod] * 4 + [self.policy] * 3
        acts += [self.lose, self.drop, self.namespace, self.time, self.state, self.trial]
        self.luck.choice(acts)()
        self.check()

    def recount(self, rows):
        for row in rows:
            known = self.pods[row.namespace, row.name]
            if not known.is_terminated:
                self.charges[row.namespace, row.name] = self.counters.count(known)

    # ------------------------------------------------------------------ what happens

    def _row(self, name, namespace, cpu, **metadata):
        requests = {"cpu": cpu}
        spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        phase = self.luck.choice(["Pending", "Running", "Running", "Succeeded"])
        more = {"phase": phase, "spec": spec, **metadata}
        return self.decode(pod_body(name, namespace=namespace, version=str(self.version), **more))

    def pod(self):
        self.version += 1
        labels = {"x": self.luck.choice("yz"), "n": self.luck.choice("2q")}
        labels = {key: text for key, text in labels.items() if self.luck.random() < 0.7}
        key = self.luck.choice(["n1", "n2"]), self.luck.choice(["p1", "p2", "p3"])
        row = self.pods[key] = self._row(key[1], key[0], self.luck.choice("12"), labels=labels)
        self.charges.pop(key, None)
        self.recount([*self.counters.see_pod(row), row])

    def lose(self):
        if self.pods:
            key = self.luck.choice(sorted(self.pods))
            del self.pods[key]
            self.charges.pop(key, None)
            self.recount(self.counters.lose_pod(PodKey(*key)))

    def trial(self):
        """A resize that is asked for is counted, and changes nothing that is known."""
        if self.pods:
            known = self.pods[self.luck.choice(sorted(self.pods))]
            body = next(fact for fact in known.facts if isinstance(fact, PodBody))
            pod = json.loads(body.json())
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
            if not known.is_terminated:
                self.counters.count(self.decode(json.dumps(pod).encode()))

    def policy(self):
        if not self.is_synced:
            return
        self.version += 1
        names = self.luck.sample(["cpu", "x.io/y", "memory"], self.luck.randrange(3))
        policy = a_policy(
            self.luck.choice("abc"),
            match=self.luck.choice(MATCHES),
            charges={name: self.luck.choice(CHARGES) for name in names},
            is_ignored=not names and self.luck.random() < 0.7,
            keeps_native=bool(names) and self.luck.random() < 0.5,
            mode=self.luck.choice(["Enforce", "Shadow"]),
            generation=self.version,
        )
        self.policies[policy.name] = policy
        self.recount(self.counter.see_policy(policy))

    def drop(self):
        if self.policies:
            name = self.luck.choice(sorted(self.policies))
            self.recount(self.counter.lose_policy(self.policies.pop(name)))

    def namespace(self):
        self.version += 1
        name = self.luck.choice(["n1", "n2"])
        labels = dict.fromkeys(self.luck.sample("ab", self.luck.randrange(3)), "1")
        space = NamespaceObject(name=name, resource_version=str(self.version), labels=labels)
        self.namespaces[name] = space
        self.recount(self.counter.see_namespace(space))

    def time(self):
        self.now_s += self.luck.choice([60, 900])
        self.recount(self.counter.set_time(self.now_s))

    def state(self):
        state = self.luck.choice([KindState.SYNCED, KindState.SYNCED, KindState.SYNCING])
        self.recount(self.counter.set_state(state))
        self.is_synced = state is KindState.SYNCED
        if not self.is_synced:
            self.policies.clear()

    # ------------------------------------------------------------------ what must be true

    def check(self):
        counter = PolicyCounter(LANGUAGE, keep_body, read_body)
        counter.set_time(self.now_s)
        for space in self.namespaces.values():
            counter.see_namespace(space)
        for policy in self.policies.values():
            counter.see_policy(policy)
        if self.is_synced:
            counter.set_state(KindState.SYNCED)
        counters, charges = Counters((counter,)), {}
        for key, row in self.pods.items():
            counter.see_pod(row)
            if not row.is_terminated:
                charges[key] = counters.count(row)
        assert shown(self.charges) == shown(charges)
        assert reported(self.counter) == reported(counter)


def shown(charges):
    return {
        key: (each.detail, dict(each.provisional.amounts))
        if isinstance(each, NotReady)
        else dict(each.amounts)
        for key, each in charges.items()
    }


def reported(counter):
    return {
        each.policy.text.name: {
            name: (total.pods, total.failed, present(total.amounts), present(total.present))
            for name, total in each.namespaces.items()
        }
        for each in counter.report()
    }


def present(amounts):
    return {name: amount.nanos for name, amount in amounts.items() if amount.nanos}


@pytest.mark.parametrize("seed", one_quick(range(20)))
def test_answers_and_totals_are_those_of_a_new_counter(seed):
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
