"""AAQ's own tests of scopes (E-ARQ-11, 12, 16, 17, 21 to 28), on a real cluster."""

from http.client import CREATED

import pytest

from support.builders.pods import listed
from support.quota.installed_aaq import cluster_path, idle_pod, mark
from support.until import until_sync

MARK = mark()
CLASSES = [f"rows-{MARK}-{number}" for number in range(1, 10)]
SIZED = listed("pods=5 requests.cpu=1 requests.memory=500Mi limits.cpu=2 limits.memory=1Gi")
NOTHING = "pods=0 requests.cpu=0 requests.memory=0 limits.cpu=0 limits.memory=0"
LONG = ("cpu=500m memory=200Mi", "cpu=1 memory=400Mi")
LONG_USED = "pods=1 requests.cpu=500m requests.memory=200Mi limits.cpu=1 limits.memory=400Mi"
HOSTS = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module", autouse=True)
def classes(system):
    for name in CLASSES:
        body = {"metadata": {"name": name}, "value": 100}
        assert system.request("POST", cluster_path("priorityclasses"), body)[0] == CREATED
    yield
    for name in CLASSES:
        system.request("DELETE", cluster_path("priorityclasses", name))


def a_class(place, number):
    """The name of a class that admission has heard of."""
    name = CLASSES[number - 1]
    probe = idle_pod("probe", priorityClassName=name)
    path = f"{place.path('pods')}?dryRun=All"
    until_sync(lambda: place.system.request("POST", path, probe)[0] == CREATED, lambda: name)
    return name


def selected(scope, operator="Exists", *values):
    expression = {"scopeName": scope, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"scopeSelector": {"matchExpressions": [expression]}}


def by_list(scope):
    return {"scopes": [scope]}


# ------------------------------------------------------------------ deadlines


def tell_deadlines_apart(place, scoped):
    place.quota(SIZED, "ending", **scoped("Terminating"))
    place.quota(SIZED, "lasting", **scoped("NotTerminating"))

    place.admit("long", *LONG)
    place.wait_used(LONG_USED, "lasting")
    place.wait_used(NOTHING, "ending")
    place.delete("pods", "long")
    place.wait_used(NOTHING, "lasting")

    place.admit("short", *LONG, activeDeadlineSeconds=3600)
    place.wait_used(LONG_USED, "ending")
    place.wait_used(NOTHING, "lasting")
    place.delete("pods", "short")
    place.wait_used(NOTHING, "ending")


def test_e_arq_11_pods_with_a_deadline_are_told_apart_by_scopes(place):
    tell_deadlines_apart(place, by_list)


def test_e_arq_17_pods_with_a_deadline_are_told_apart_by_a_selector(place):
    tell_deadlines_apart(place, selected)


# ------------------------------------------------------------------ class of service


def tell_services_apart(place, scoped):
    place.quota({"pods": "5"}, "best-effort", **scoped("BestEffort"))
    place.quota({"pods": "5"}, "others", **scoped("NotBestEffort"))

    place.admit("modest")
    place.wait_used("pods=1", "best-effort")
    place.wait_used("pods=0", "others")
    place.delete("pods", "modest")
    place.wait_used("pods=0", "best-effort")

    place.admit("burstable", *LONG)
    place.wait_used("pods=1", "others")
    place.wait_used("pods=0", "best-effort")
    place.delete("pods", "burstable")
    place.wait_used("pods=0", "others")


def test_e_arq_12_best_effort_pods_are_told_apart_by_scopes(place):
    tell_services_apart(place, by_list)


def test_e_arq_16_best_effort_pods_are_told_apart_by_a_selector(place):
    tell_services_apart(place, selected)


def test_a_full_quota_holds_back_only_pods_in_its_scopes(place):
    """AAQ holds back every pod of the namespace: it forgets the scopes when it decides."""
    place.quota({"pods": "0"}, "best-effort", **by_list("BestEffort"))

    place.pod("modest")
    place.check_stays_gated("modest")
    place.admit("burstable", *LONG)

    place.wait_used("pods=0", "best-effort")


# ------------------------------------------------------------------ priority classes


def classy(place, operator, *classes, hard="pods=1"):
    place.quota(listed(hard), **selected("PriorityClass", operator, *classes))


def test_e_arq_21_a_pod_of_the_class_is_counted(place):
    first = a_class(place, 1)
    classy(place, "In", first)

    place.admit("p", priorityClassName=first)
    place.wait_used("pods=1")

    place.delete("pods", "p")
    place.wait_used("pods=0")


def test_e_arq_22_a_second_pod_of_the_class_waits(place):
    second = a_class(place, 2)
    classy(place, "In", second)
    place.admit("first", priorityClassName=second)
    place.wait_used("pods=1")

    place.pod("second", priorityClassName=second)
    place.check_stays_gated("second")

    place.delete("pods", "second", "first")
    place.wait_used("pods=0")


def test_e_arq_23_pods_of_another_class_are_free(place):
    other = a_class(place, 3)
    classy(place, "In", a_class(place, 4))

    place.admit("first", priorityClassName=other)
    place.admit("second", priorityClassName=other)

    place.wait_used("pods=0")


def test_e_arq_24_pods_of_either_class_are_counted(place):
    either = [a_class(place, number) for number in (5, 6)]
    classy(place, "In", *either, hard="pods=2")

    for name in either:
        place.admit(name, priorityClassName=name)
    place.wait_used("pods=2")

    place.delete("pods", *either)
    place.wait_used("pods=0")


def test_e_arq_25_pods_of_an_excluded_class_are_free(place):
    excluded = a_class(place, 7)
    classy(place, "NotIn", excluded)

    place.admit("p", priorityClassName=excluded)

    place.wait_used("pods=0")


def test_e_arq_26_pods_of_any_class_are_counted(place):
    any_class = a_class(place, 8)
    classy(place, "Exists")

    place.admit("p", priorityClassName=any_class)
    place.wait_used("pods=1")

    place.delete("pods", "p")
    place.wait_used("pods=0")


def test_e_arq_27_amounts_of_pods_of_the_class_are_counted(place):
    ninth = a_class(place, 9)
    requests = "pods=1 requests.cpu=1 requests.memory=1Gi"
    classy(place, "In", ninth, hard=f"{requests} limits.cpu=3 limits.memory=3Gi")

    place.admit("p", "cpu=1 memory=1Gi", "cpu=2 memory=2Gi", priorityClassName=ninth)
    place.wait_used(f"{requests} limits.cpu=2 limits.memory=2Gi")

    place.delete("pods", "p")
    place.wait_used(NOTHING)


# ------------------------------------------------------------------ affinity


def test_e_arq_28_only_affinity_that_reaches_other_namespaces_is_counted(place):
    def apart(**term):
        labels = {"matchLabels": {"app": "rows"}}
        terms = [{"topologyKey": HOSTS, "labelSelector": labels, **term}]
        return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}

    place.quota({"pods": "5"}, **selected("CrossNamespacePodAffinity"))

    place.admit("at-home", **apart())
    place.wait_used("pods=0")
    place.admit("by-name", **apart(namespaces=["elsewhere"]))
    place.wait_used("pods=1")
    place.admit("by-label", **apart(namespaceSelector={"matchLabels": {"team": "blue"}}))
    place.wait_used("pods=2")

    place.delete("pods", "at-home", "by-name", "by-label")
    place.wait_used("pods=0")
