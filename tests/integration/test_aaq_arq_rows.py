"""AAQ's own tests of quotas of a namespace (E-ARQ), on a real cluster; scopes are elsewhere."""

import json
from http.client import CREATED, FORBIDDEN, OK, UNPROCESSABLE_ENTITY
from itertools import count

import yaml

from assets import ROOT
from support.builders.pods import listed
from support.quota.installed_aaq import (
    ACRQ,
    ARQ,
    COUNT_ARQ,
    TEST_QUOTA,
    cluster_path,
    custom,
    mark,
)
from support.until import until_sync

FOREIGN = "testGate"
EXAMPLES = ROOT / "examples" / "quota"


# ------------------------------------------------------------------ pods


def test_e_arq_04_a_pod_is_counted_held_back_and_given_back(place):
    place.quota(TEST_QUOTA)
    large = ("cpu=500m memory=252Mi ephemeral-storage=30Gi", "example.com/dongle=2")
    used = "pods=1 cpu=500m memory=252Mi ephemeral-storage=30Gi requests.example.com/dongle=2"
    place.admit("first", *large)
    place.wait_used(used)

    place.pod("too-much-cpu", "cpu=600m memory=100Mi")
    place.pod("too-much-of-others", "cpu=500m memory=100Mi ephemeral-storage=30Gi", large[1])
    place.check_stays_gated("too-much-cpu", "too-much-of-others")
    others = " ".join(place.notes("too-much-of-others"))
    assert "ephemeral-storage=30Gi" in others
    assert "requests.example.com/dongle=2" in others

    pod = place.read("pods", "first")
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    code, _ = place.system.request("PUT", place.path("pods", "first"), pod)
    assert code == UNPROCESSABLE_ENTITY
    place.wait_used(used)

    place.delete("pods", "too-much-cpu", "too-much-of-others", "first")
    place.wait_used("pods=0 cpu=0 memory=0 ephemeral-storage=0 requests.example.com/dongle=0")


def test_e_arq_18_a_raised_limit_lets_a_pod_go(place):
    place.quota(TEST_QUOTA)
    place.pod("p", "memory=600Mi")
    place.check_stays_gated("p")

    place.limit("memory=600Mi")

    place.wait_released("p")
    place.wait_used("memory=600Mi")


def test_e_arq_19_a_pod_that_ends_makes_room_for_another(place):
    place.quota(TEST_QUOTA)
    place.admit("first", "memory=300Mi")
    place.pod("second", "memory=300Mi")
    place.check_stays_gated("second")

    place.delete("pods", "first")

    place.wait_released("second")
    place.wait_used("memory=300Mi pods=1")


def test_e_arq_20_a_pod_with_a_foreign_gate_goes_once_that_is_removed(place):
    place.quota(TEST_QUOTA)
    place.pod("p", "cpu=100m", schedulingGates=[{"name": FOREIGN}])
    place.admit("witness")
    place.check_still_gated("p")

    pod = place.read("pods", "p")
    rest = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != FOREIGN]
    replace = {"op": "replace", "path": "/spec/schedulingGates", "value": rest}
    removed = place.patch("pods", "p", [replace], "--type=json")

    assert removed.code == 0, removed.err
    place.wait_released("p")
    place.wait_used("cpu=100m")


def test_e_arq_29_events_say_that_the_quota_is_exceeded(system, place):
    place.quota(TEST_QUOTA)
    place.pod("p", "memory=50Gi")
    place.check_stays_gated("p")

    assert "exceeded quota: test-quota" in system.run("get", "events", "-n", place.name)


# ------------------------------------------------------------------ quotas as objects


def test_e_arq_13_a_quota_is_created_changed_read_and_deleted(place):
    place.quota(listed("cpu=1 memory=500Mi"))

    place.limit("cpu=2 memory=1Gi")

    assert place.read(ARQ, "test-quota")["spec"]["hard"] == listed("cpu=2 memory=1Gi")
    until_sync(lambda: place.status()["hard"] == listed("cpu=2 memory=1Gi"), place.status)
    place.delete(ARQ, "test-quota")
    until_sync(lambda: not place.exists(ARQ, "test-quota"), lambda: "it is gone")


def test_e_arq_14_quotas_are_listed_patched_and_deleted_by_label(system, place):
    label = f"rows-{mark()}"
    quota = custom(ARQ, "q", {"hard": listed("cpu=1 memory=500Mi")})
    quota["metadata"]["labels"] = {label: "yes"}
    assert place.try_create(ARQ, quota)[0] == CREATED
    everywhere = f"{cluster_path(ARQ)}?labelSelector={label}"

    code, found = system.request("GET", everywhere)
    assert (code, [each["metadata"]["name"] for each in found["items"]]) == (OK, ["q"])

    change = {"metadata": {"labels": {label: "patched"}}, "spec": {"hard": {"memory": "750Mi"}}}
    assert place.patch(ARQ, "q", change, "--type=merge").code == 0
    patched = place.read(ARQ, "q")
    assert patched["metadata"]["labels"] == {label: "patched"}
    assert patched["spec"]["hard"] == listed("cpu=1 memory=750Mi")

    code, _ = system.request("DELETE", f"{place.path(ARQ)}?labelSelector={label}%3Dpatched")
    assert code == OK
    assert system.request("GET", everywhere)[1]["items"] == []


def test_e_arq_15_a_status_that_somebody_wrote_is_put_right(place):
    place.quota(listed("cpu=1 memory=1Gi"))
    foreign = {"status": {"hard": listed("cpu=2 memory=2Gi")}}

    written = place.patch(ARQ, "test-quota", foreign, "--type=merge", "--subresource=status")

    assert written.code == 0, written.err
    until_sync(lambda: place.status()["hard"] == listed("cpu=1 memory=1Gi"), place.status)
    assert place.read(ARQ, "test-quota")["spec"]["hard"] == listed("cpu=1 memory=1Gi")
    version = int(place.read(ARQ, "test-quota")["metadata"]["generation"])
    assert version == 1


# ------------------------------------------------------------------ objects other than pods


def test_e_arq_02_services_are_counted_and_refused(place):
    place.quota(TEST_QUOTA)
    port = [{"port": 80}]
    place.create("services", "inside", spec={"ports": port})
    place.create("services", "outside", spec={"ports": port, "type": "NodePort"})
    place.wait_used("services=2 services.nodeports=1")

    balanced = {"metadata": {"name": "lb"}, "spec": {"ports": port, "type": "LoadBalancer"}}
    code, status = place.try_create("services", balanced)
    assert code == FORBIDDEN
    assert "exceeded quota" in status["message"]

    place.delete("services", "inside", "outside")
    place.wait_used("services=0 services.nodeports=0")


def fill_up(system, place, plural):
    """Up to a limit of one more than there are by themselves, and back."""
    existing = len(system.request("GET", place.path(plural))[1]["items"])
    place.quota({plural: str(existing + 1)})
    # Kubernetes counts an object when it is created only if the quota is in force by then.
    place.wait_used(f"{plural}={existing}")

    place.create(plural, "one-more")
    place.wait_used(f"{plural}={existing + 1}")
    assert place.try_create(plural, {"metadata": {"name": "too-many"}})[0] == FORBIDDEN

    place.delete(plural, "one-more")
    place.wait_used(f"{plural}={existing}")


def test_e_arq_03_secrets_are_counted_to_the_limit(system, place):
    fill_up(system, place, "secrets")


def test_e_arq_05_config_maps_are_counted_to_the_limit(system, place):
    # Every namespace is given one, after a moment.
    until_sync(lambda: place.exists("configmaps", "kube-root-ca.crt"), "an authority is there")

    fill_up(system, place, "configmaps")


TEMPLATE = {
    "metadata": {"labels": {"app": "rows"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
CONTROLLER = {"replicas": 0, "selector": {"app": "rows"}, "template": TEMPLATE}
SET = {**CONTROLLER, "selector": {"matchLabels": {"app": "rows"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
GOLD = "gold.storageclass.storage.k8s.io"


def come_and_go(place, plural, spec, used):
    """Under test-quota: each name goes from nothing to an amount, and back."""
    nothing = " ".join(f"{name}=0" for name in listed(used))
    place.quota(TEST_QUOTA)
    place.wait_used(nothing)

    place.create(plural, "one", spec=spec)
    place.wait_used(used)

    place.delete(plural, "one")
    place.wait_used(nothing)


def test_e_arq_06_replication_controllers_are_counted_while_they_exist(place):
    come_and_go(place, "replicationcontrollers", CONTROLLER, "replicationcontrollers=1")


def test_e_arq_07_replica_sets_are_counted_while_they_exist(place):
    come_and_go(place, "replicasets", SET, "count/replicasets.apps=1")


def test_e_arq_08_claims_are_counted_while_they_exist(place):
    used = f"persistentvolumeclaims=1 requests.storage=1Gi {GOLD}/requests.storage=0"
    come_and_go(place, "persistentvolumeclaims", CLAIM, used)


def test_e_arq_09_claims_are_counted_for_their_class_too(place):
    of_class = f"{GOLD}/persistentvolumeclaims=1 {GOLD}/requests.storage=1Gi"
    used = f"persistentvolumeclaims=1 requests.storage=1Gi {of_class}"
    come_and_go(place, "persistentvolumeclaims", {**CLAIM, "storageClassName": "gold"}, used)


def wait_until_kubernetes_counts_quotas(place):
    """Its controller notices a new kind within half a minute, and counts it in later quotas."""
    place.quota({"pods": "1"}, "counted")
    numbers = count()

    def is_counted():
        name = f"probe-{next(numbers)}"
        place.create("resourcequotas", name, spec={"hard": {COUNT_ARQ: "9"}})
        until_sync(lambda: status(name), "Kubernetes has looked at the quota")
        used = status(name).get("used", {})
        place.delete("resourcequotas", name)
        return used == {COUNT_ARQ: "1"}

    def status(name):
        return place.read("resourcequotas", name).get("status")

    until_sync(is_counted, "Kubernetes counts application-aware quotas")
    place.system.run("-n", place.name, "delete", "arq", "counted")


def make_kubernetes_count_again(place):
    """Its controller may count before it has heard of the newest quota.

    It counts again when an object of the kind is deleted, else after five minutes. A quota that
    cannot be created was counted already.
    """
    code, _ = place.try_create(ARQ, custom(ARQ, "short-lived", {"hard": {}}))
    if code != FORBIDDEN:
        place.system.run("-n", place.name, "delete", "arq", "short-lived")


def test_e_arq_01_a_quota_counts_itself(place):
    wait_until_kubernetes_counts_quotas(place)
    place.quota(TEST_QUOTA)
    make_kubernetes_count_again(place)

    place.wait_used(f"{COUNT_ARQ}=1")


def test_e_arq_10_quotas_can_be_limited_by_a_quota(place):
    wait_until_kubernetes_counts_quotas(place)
    place.quota({COUNT_ARQ: "1"})
    make_kubernetes_count_again(place)
    place.wait_used(f"{COUNT_ARQ}=1")

    code, status = place.try_create(ARQ, custom(ARQ, "second", {"hard": {}}))

    assert code == FORBIDDEN
    assert "exceeded quota" in status["message"]
    assert place.status()["used"] == {COUNT_ARQ: "1"}


# ------------------------------------------------------------------ the examples


def wait_status(system, quota):
    """Until the limits of a quota are in its status."""
    name, namespace = quota["metadata"]["name"], quota["metadata"].get("namespace")
    where = ["-n", namespace, ARQ] if namespace else [ACRQ]
    wanted = quota["spec"].get("quota", quota["spec"])["hard"]

    def shown():
        status = json.loads(system.run("get", *where, name, "-o", "json")).get("status", {})
        return status.get("total", status).get("hard")

    until_sync(lambda: shown() == wanted, shown)


def test_every_example_of_a_quota_works_as_it_stands(system):
    """With machines in them, too. That of the installation is AAQ's operator's business."""
    files = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.stem != "installation"]
    text = "---\n".join(path.read_text() for path in files)
    quotas = [each for each in yaml.safe_load_all(text) if "ResourceQuota" in each["kind"]]
    system.run("apply", "-f", "-", stdin=text)
    try:
        for quota in quotas:
            wait_status(system, quota)
        assert len(quotas) >= 9
    finally:
        system.run("delete", "--ignore-not-found", "--timeout=120s", "-f", "-", stdin=text)
