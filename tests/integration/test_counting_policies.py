"""CountingPolicies on a real cluster: validated by the webhook, enforced by the controller."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import CREATED, UNPROCESSABLE_ENTITY

from support.quota.installed_aaq import idle_pod, mark
from support.until import until_sync

PATH = "/apis/bursar.io/v1alpha1/countingpolicies"


def a_policy(name, **spec):
    given = {"apiVersion": "bursar.io/v1alpha1", "kind": "CountingPolicy"}
    return {**given, "metadata": {"name": name}, "spec": spec}


@contextmanager
def in_cluster(system, policy) -> Iterator[str]:
    """The policy exists, and the controller has read it."""
    path = f"{PATH}/{policy['metadata']['name']}"
    code, answer = system.request("POST", PATH, policy)
    assert code == CREATED, answer
    try:
        until_sync(lambda: conditions(system, path), "the controller reports")
        yield path
    finally:
        system.request("DELETE", path)


def conditions(system, path):
    _, found = system.request("GET", path)
    return found.get("status", {}).get("conditions", [])


def a_notebook(place, name, **labels):
    metadata = {"name": name, "labels": labels}
    place.create("pods", name, metadata=metadata, spec=idle_pod(name, "cpu=1")["spec"])


def test_pods_of_a_notebook_count_as_notebooks(system, place):
    kind = f"instances/nb-{mark()}"
    match = f"object.metadata.namespace == '{place.name}' && has(object.metadata.labels.notebook)"
    policy = a_policy(f"notebooks-{mark()}", match=match, charges={kind: "1"})
    with in_cluster(system, policy) as path:
        place.quota({kind: "1", "cpu": "100m"})
        a_notebook(place, "first", notebook="a")
        place.wait_released("first")
        place.wait_used(f"{kind}=1 cpu=0")
        a_notebook(place, "second", notebook="b")
        # It is no notebook, so its cpu counts.
        a_notebook(place, "web", app="web")
        place.check_stays_gated("second", "web")
        assert kind in "".join(place.notes("second"))
        assert "cpu" in "".join(place.notes("web"))

        until_sync(lambda: system.request("GET", path)[1]["status"]["matchedPods"] == 2, "2 pods")
        assert conditions(system, path)[0]["status"] == "True"
        place.delete("pods", "first")
        place.wait_released("second")
        place.delete("pods", "second", "web")


def test_policy_in_shadow_mode_reports_and_charges_nothing(system, place):
    match = f"object.metadata.namespace == '{place.name}'"
    policy = a_policy(f"try-{mark()}", match=match, mode="Shadow", charges={"instances/x": "5"})
    with in_cluster(system, policy) as path:
        place.quota({"cpu": "2"})
        place.admit("one", "cpu=1")
        place.wait_used("cpu=1")
        until_sync(
            lambda: system.request("GET", path)[1]["status"]["charges"] == {"instances/x": "5"},
            "the charge is reported",
        )
        place.delete("pods", "one")


def test_pod_on_which_a_policy_fails_waits_alone_and_is_told(system, place):
    name = f"sizes-{mark()}"
    match = f"object.metadata.namespace == '{place.name}'"
    policy = a_policy(name, match=match, charges={"instances/x": "int(object.metadata.labels.n)"})
    with in_cluster(system, policy):
        place.quota({"instances/x": "10"})
        a_notebook(place, "odd", n="many")
        a_notebook(place, "fine", n="3")
        place.wait_released("fine")
        place.wait_used("instances/x=3")
        place.check_stays_gated("odd", note=name)
        note = "".join(place.notes("odd"))
        assert "int(object.metadata.labels.n): 'many' is not an integer" in note
        place.delete("pods", "odd", "fine")


def test_bad_policy_is_refused_with_field_line_and_column(system):
    bad = a_policy("bad", match="true", charges={"instances/notebook": "1 + object.metadata."})
    code, answer = system.request("POST", PATH, bad)
    assert code == UNPROCESSABLE_ENTITY, answer
    assert 'spec.charges["instances/notebook"]: 1:21: syntax error' in answer["message"]

    hostile = a_policy("bad", match="(" * 400 + "true" + ")" * 400, ignore=True)
    code, answer = system.request("POST", PATH, hostile)
    assert (code, "nested too deeply" in answer["message"]) == (UNPROCESSABLE_ENTITY, True)

    misspelt = a_policy("bad", match="true", mode="shadow", ignore=True)
    code, answer = system.request("POST", PATH, misspelt)
    assert (code, "spec.mode" in answer["message"]) == (UNPROCESSABLE_ENTITY, True)
