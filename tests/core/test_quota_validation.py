"""The API server's rules for ResourceQuotas, one by one. `tests/integration` compares with it."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind
from bursar.core.quota.scopes import ScopeRule
from bursar.core.quota.validation.spec import enforcement_problem, spec_problems, undelegated
from support.builders.pods import parsed
from support.looks import Looks

PATH = "spec.scopeSelector.matchExpressions"
STANDARD = "must be a standard resource type or fully qualified"
FOR_QUOTA = "must be a standard resource for quota"
UNFIT = "unsupported scope applied to resource"


def a_quota(hard="pods=1", *scopes, kind=QuotaKind.NAMESPACED):
    amounts = parsed(hard) if isinstance(hard, str) else hard
    return Quota(key=QuotaKey(kind, "", "q"), hard=amounts, scopes=scopes)


def listed(*names):
    return [ScopeRule(name, "Exists", is_listed=True) for name in names]


def texts(quota):
    return [str(problem) for problem in spec_problems(quota)]


@pytest.mark.parametrize(
    "hard",
    [
        "",
        "pods=1 requests.cpu=500m limits.memory=1Gi ephemeral-storage=1",
        "hugepages-2Mi=1 requests.hugepages-1Gi=500m",
        "example.com/gpu=1 requests.example.com/gpu=500m cpu/vmi=1000m count/pods=3",
        "services=0 services.nodeports=1 requests.storage=1Gi",
    ],
)
def test_names_and_amounts_that_a_resource_quota_may_have(hard):
    assert texts(a_quota(hard)) == []


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [
        (
            "cpus=1",
            [f'spec.hard[cpus]: Invalid value: "cpus": {text}' for text in (STANDARD, FOR_QUOTA)],
        ),
        ("storage=1", [f'spec.hard[storage]: Invalid value: "storage": {FOR_QUOTA}']),
        ("pods=-1", ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ("pods=500m", ['spec.hard[pods]: Invalid value: "500m": must be an integer']),
        ("cpu/vmi=1500m", ['spec.hard[cpu/vmi]: Invalid value: "1500m": must be an integer']),
    ],
)
def test_names_and_amounts_that_it_may_not_have(hard, wanted):
    assert texts(a_quota(hard)) == wanted


def test_a_name_that_is_spelt_wrong_is_not_compared_with_the_known_ones():
    one = Quantity.of(1)
    assert all("name part" in text for text in texts(a_quota({"example.com/a b": one})))
    unqualified = texts(a_quota({"a b": one}))
    assert [STANDARD in text for text in unqualified] == [False, False]
    assert FOR_QUOTA in unqualified[1]


@pytest.mark.parametrize(
    ("hard", "scopes", "detail"),
    [
        ("pods=1", ("Besteffort",), "unsupported scope"),
        ("requests.cpu=1", ("BestEffort",), UNFIT),
        ("ephemeral-storage=1", ("NotBestEffort",), UNFIT),
        ("pods=1", ("VolumeAttributesClass",), UNFIT),
        ("pods=1", ("NotBestEffort", "BestEffort"), "conflicting scopes"),
        ("pods=1", ("Terminating", "NotTerminating"), "conflicting scopes"),
    ],
)
def test_scopes_that_it_may_not_have(hard, scopes, detail):
    shown = ",".join(f'"{scope}"' for scope in scopes)
    assert texts(a_quota(hard, *listed(*scopes))) == [
        f"spec.scopes: Invalid value: [{shown}]: {detail}"
    ]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (ScopeRule("PriorityClass", "In", ("a",)), []),
        (ScopeRule("PriorityClass", "DoesNotExist"), []),
        (ScopeRule("BestEffort", "Exists"), []),
        (ScopeRule("Prio", "Exists"), [f'{PATH}.scopeName: Invalid value: "Prio": unsupported']),
        (ScopeRule("VolumeAttributesClass", "Exists"), [f"{PATH}: Invalid value: "]),
        (ScopeRule("BestEffort", "DoesNotExist"), [f"{PATH}.operator: Invalid value: "]),
        (ScopeRule("PriorityClass", "in", ("a",)), [f'{PATH}.operator: Invalid value: "in": not']),
        (ScopeRule("PriorityClass", "In"), [f"{PATH}.values: Required value: must be at least"]),
        (ScopeRule("PriorityClass", "Exists", ("a",)), [f'{PATH}.values: Invalid value: ["a"]:']),
    ],
)
def test_an_expression_of_a_scope_selector(rule, wanted):
    found = texts(a_quota("pods=1", rule))
    assert len(found) == len(wanted)
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True))


def test_expressions_that_contradict_each_other():
    rules = (ScopeRule("Terminating", "Exists"), ScopeRule("NotTerminating", "Exists"))
    assert texts(a_quota("pods=1", *rules)) == [f"{PATH}: Invalid value: null: conflicting scopes"]


# ------------------------------------------------------------------ quotas that are stored


def test_a_quota_that_is_in_force_has_no_problem():
    assert enforcement_problem(a_quota("pods=1 services=1")) == ""
    assert enforcement_problem(a_quota("pods=1", kind=QuotaKind.CLUSTER)) == ""


def test_a_contradiction_between_the_two_notations_is_found():
    scopes = (*listed("BestEffort"), ScopeRule("NotBestEffort", "Exists"))
    assert texts(a_quota("pods=1", *scopes)) == [], "the API server does not find it"
    assert "conflicting scopes" in enforcement_problem(a_quota("pods=1", *scopes))


@pytest.mark.parametrize("scope", ["BestEffort", "NotTerminating"])
def test_a_scope_that_is_listed_very_often_is_judged_once(scope):
    """A quota of 1 MB can list 80,000, and each of them was compared with each limit."""
    looks = Looks()
    hard = {looks.name(name): Quantity.of(1) for name in ("cpu", "memory", "count/pods")}
    classes = [ScopeRule("PriorityClass", "In", (f"c{number}",)) for number in range(500)]
    rules = [*listed(scope), classes[0], ScopeRule(scope, "Exists")]
    judged, work = [], []
    for scopes in (rules, [*rules, *listed(*[scope] * 500), *classes]):
        quota = a_quota(hard, *scopes)
        before = looks.count
        judged.append(enforcement_problem(quota))
        work.append(looks.count - before)

    assert judged[0] == judged[1]
    assert work[1] <= work[0]


@pytest.mark.parametrize(
    ("hard", "scopes", "names"),
    [
        ("count/services=1 count/pods=1 pods=1", ["BestEffort"], "count/services"),
        ("count/services=1 example.com/gpu=1", ["PriorityClass"], "count/services example.com/gpu"),
        ("count/persistentvolumeclaims=1", ["NotTerminating"], "count/persistentvolumeclaims"),
        ("requests.example.com/gpu=1 cpu/vmi=1", ["VolumeAttributesClass"], "cpu/vmi requests"),
        ("count/persistentvolumeclaims=1", ["VolumeAttributesClass"], ""),
        ("count/pods=1 requests.example.com/gpu=1 cpu/vmi=1", ["Terminating", "BestEffort"], ""),
        ("count/services=1 example.com/gpu=1", [], ""),
    ],
)
def test_names_of_which_no_object_has_the_scopes_are_not_in_force(hard, scopes, names):
    """The API server accepts them in a ResourceQuota, and counts nothing."""
    quota = a_quota(hard, *listed(*scopes))
    assert texts(quota) == [], "the API server does not find it"
    problem = enforcement_problem(quota)
    assert bool(problem) == bool(names)
    assert names in problem


def test_a_cluster_quota_can_limit_only_what_a_gate_enforces():
    problem = enforcement_problem(a_quota("cpus=1 pods=1 services=2", kind=QuotaKind.CLUSTER))
    assert problem.startswith("spec.quota.hard[cpus]: ")
    assert problem.endswith("non scheduable resources :[cpus services]")
    assert undelegated(["pods", "cpu/vmi"]) == ""


@pytest.mark.parametrize(
    ("rule", "is_readable"),
    [
        (ScopeRule("PriorityClass", "In", ("a",)), True),
        (ScopeRule("VolumeAttributesClass", "Exists"), True),
        (ScopeRule("PriorityClass", "In"), False),
        (ScopeRule("PriorityClass", "Exists", ("a",)), False),
        (ScopeRule("PriorityClass", "in", ("a",)), False),
        (ScopeRule("Besteffort", "Exists"), False),
    ],
)
def test_rules_that_cannot_be_read(rule, is_readable):
    assert rule.is_readable is is_readable


def test_both_notations_of_a_scope_are_equal():
    assert listed("BestEffort") == [ScopeRule("BestEffort", "Exists")]
