"""What quotas should show, counted anew from all pods."""

from dataclasses import replace
from random import Random

import pytest

from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList, add
from bursar.core.quota.account import Charge
from bursar.core.quota.quota import GATE, Quota, QuotaKey, QuotaKind
from bursar.core.quota.scopes import ScopeRule, matches
from bursar.core.quota.usage import is_counted, native_usage
from bursar.core.quota.views.recount import Recount
from support.builders.pods import parsed, texts
from support.builders.quota_books import GATED, UNGATED, a_namespace, a_quota, a_row

NOW_S = 1_000_000
RUNNING = a_row("a/runs", "cpu=1 memory=1Gi", "cpu=2", gates=UNGATED)
WAITING = a_row("a/waits", "cpu=1 memory=1Gi", "cpu=2")
HARD = "count/pods=9 pods=9 cpu=9 requests.memory=9Gi limits.cpu=9"


def native(where: str, hard: str, **facts: object) -> Quota:
    quota = a_quota(where, hard, **facts)
    namespace, name = where.split("/")
    return replace(quota, key=QuotaKey(QuotaKind.NATIVE, namespace, name))


def counted(quota: Quota, *rows: PodRow, **labels: str) -> dict[str, str]:
    namespaces = [a_namespace(name, text) for name, text in labels.items()]
    return texts(Recount(rows, NOW_S).used(quota, namespaces))


def test_kubernetes_counts_pods_at_a_gate_like_all_others():
    assert counted(native("a/q", HARD), RUNNING, WAITING) == {
        "count/pods": "2",
        "cpu": "2",
        "limits.cpu": "4",
        "pods": "2",
        "requests.memory": "2Gi",
    }


@pytest.mark.parametrize("gates", [GATED, ("other",), (GATE, "other")], ids=str)
def test_aaq_counts_only_objects_of_pods_at_any_gate(gates):
    gated = a_row("a/waits", "cpu=1", gates=gates)

    assert counted(a_quota("a/q", HARD), RUNNING, gated) == {
        "count/pods": "2",
        "cpu": "1",
        "limits.cpu": "2",
        "pods": "1",
        "requests.memory": "1Gi",
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"phase": "Succeeded"}, id="finished"),
        pytest.param({"phase": "Failed"}, id="failed"),
        pytest.param({"deletion": (NOW_S - 31, 30)}, id="overdue in its deletion"),
    ],
)
@pytest.mark.parametrize("quota", [native("a/q", "count/pods=9 pods=9"), a_quota("a/q", HARD)])
def test_a_pod_that_has_ended_is_only_an_object(quota, facts):
    ended = a_row("a/ended", "cpu=1", gates=UNGATED, **facts)
    used = counted(quota, ended)

    assert used["count/pods"] == "1"
    assert {amount for name, amount in used.items() if name != "count/pods"} == {"0"}


def test_names_of_other_objects_are_left_out():
    names = "services=1 requests.storage=1Gi count/secrets=1 pods=1"

    assert counted(native("a/q", names)) == {"pods": "0"}
    assert counted(a_quota("a/q", names)) == {"pods": "0"}


def test_names_of_virtual_machines_are_known_to_aaq_alone():
    names = "cpu/vmi=1 requests.memory/vmi=1 instances/vmi=1"

    assert set(counted(a_quota("a/q", names), RUNNING).values()) == {"0"}
    assert counted(a_quota("a/q", names)).keys() == {
        "cpu/vmi",
        "requests.memory/vmi",
        "instances/vmi",
    }
    assert "cpu/vmi" not in counted(native("a/q", names))


def test_bare_huge_pages_are_left_to_a_native_quota_and_so_counted_at_the_gate():
    waiting = a_row("a/waits", "hugepages-2Mi=4Mi")
    names = "hugepages-2Mi=1Gi requests.hugepages-2Mi=1Gi"

    assert counted(a_quota("a/q", names), waiting) == {
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "0",
    }


def test_only_pods_of_its_namespace_are_counted():
    assert counted(native("b/q", "pods=1"), RUNNING) == {"pods": "0"}


def test_only_pods_in_scope_are_counted():
    short = a_row("a/short", gates=UNGATED, deadline_s=5)
    quota = a_quota("a/q", "pods=9", scopes="Terminating BestEffort")

    assert counted(quota, RUNNING, short) == {"pods": "1"}


def test_a_cluster_wide_quota_counts_all_namespaces_it_selects():
    rows = [a_row(f"{name}/p", "memory=1Gi", gates=UNGATED) for name in "abc"]
    quota = a_quota("q", "pods=9 requests.memory=1Gi", selector="team=blue")

    assert counted(quota, *rows, a="team=blue", b="team=red", c="team=blue", d="team=blue") == {
        "pods": "2",
        "requests.memory": "2Gi",
    }


def test_the_text_of_a_sum_has_the_format_of_the_first_that_is_not_zero():
    rows = [
        a_row(f"a/p{index}", f"memory={amount}", gates=UNGATED)
        for index, amount in enumerate(["0", "1000M", "1Gi"])
    ]
    quota = a_quota("a/q", "requests.memory=1Gi")

    assert counted(quota, *rows) == {"requests.memory": "2073741824"}
    assert counted(quota, *rows[::-1]) == {"requests.memory": "2073741824"}
    assert counted(quota, rows[0], rows[1]) == {"requests.memory": "1G"}
    assert counted(quota, rows[0], rows[2]) == {"requests.memory": "1Gi"}


def test_pods_are_counted_by_the_function_given():
    fixed, other = Charge(parsed("cpu/vmi=2")), Charge(parsed("cpu/vmi=1"))

    def charge_of(row: PodRow) -> Charge:
        return other if row.name == "late" else fixed

    rows = [a_row(f"a/{name}", gates=UNGATED) for name in ("one", "two", "late")]
    counted = Recount([*rows, WAITING], NOW_S, charge_of)
    used = counted.used(a_quota("a/q", "cpu/vmi=9 pods=9 count/pods=9"), [])

    assert texts(used) == {"count/pods": "4", "cpu/vmi": "5", "pods": "0"}


# ------------------------------------------------------------------ against naive arithmetic

RULES = (
    (),
    (ScopeRule("Terminating", "Exists"),),
    (ScopeRule("NotBestEffort", "Exists"), ScopeRule("PriorityClass", "In", ("high",))),
    (ScopeRule("PriorityClass", "NotIn", ("high",)), ScopeRule("NotTerminating", "Exists")),
    (ScopeRule("CrossNamespacePodAffinity", "Exists"),),
)


def naive(quota: Quota, rows: list[PodRow]) -> dict[str, str]:
    total: ResourceList = dict.fromkeys(sorted(quota.hard), ZERO)
    for row in rows:
        if row.namespace == quota.key.namespace and matches(quota.scopes, row.profile):
            total = add(total, native_usage(row.demand, is_counted=is_counted(row, NOW_S)))
    return {name: str(total[name]) for name in sorted(quota.hard)}


def random_row(random: Random, index: int) -> PodRow:
    deletion = (NOW_S + random.choice([-60, 60]), 30) if random.random() < 0.1 else None
    return a_row(
        f"{random.choice('ab')}/p{index}",
        random.choice(["", "cpu=100m", "cpu=1 memory=1Gi", "memory=100M example.com/x=2"]),
        random.choice(["", "cpu=2", "memory=2Gi"]),
        gates=random.choice([GATED, UNGATED]),
        phase=random.choice(["Pending", "Running", "Succeeded"]),
        deletion=deletion,
        deadline_s=random.choice([None, 0, 60]),
        priority_class=random.choice(["", "high", "low"]),
        crosses_namespaces=random.random() < 0.2,
    )


@pytest.mark.parametrize("seed", range(20))
def test_grouping_pods_gives_what_adding_them_one_by_one_gives(seed):
    random = Random(seed)  # noqa: S311 - a repeatable case
    rows = [random_row(random, index) for index in range(200)]
    names = f"{HARD} requests.example.com/x=9"

    for rules in RULES:
        quota = replace(native("a/q", names), scopes=rules)

        assert counted(quota, *rows) == naive(quota, rows)
