"""Names of a quota: who they concern, whether pods wait for them, and their unit."""

import pytest

from bursar.core.quota.names import Unit, is_known_name, is_pod_name, is_schedulable, unit_of

MACHINES = ["cpu/vmi", "memory/vmi", "instances/vmi"]
OBJECTS = ["services", "configmaps", "secrets", "persistentvolumeclaims", "count/pods"]
OBJECTS += ["count/replicasets.apps", "requests.storage"]
OBJECTS += ["gold.storageclass.storage.k8s.io/requests.storage"]
COMPUTE = ["cpu", "memory", "ephemeral-storage"]
PREFIXED = [f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE]


@pytest.mark.parametrize("name", COMPUTE + PREFIXED + MACHINES + ["pods", "instances/notebook"])
def test_pods_wait_for_what_they_run_on(name):
    assert is_schedulable(name)


@pytest.mark.parametrize("name", ["requests.example.com/dongle", "requests.cpu/vmi", "limits.x"])
def test_pods_wait_for_whatever_is_called_a_request_or_limit(name):
    assert is_schedulable(name)


@pytest.mark.parametrize("name", OBJECTS + ["hugepages-2Mi", "example.com/dongle"])
def test_pods_do_not_wait_for_the_rest(name):
    assert not is_schedulable(name)


@pytest.mark.parametrize(
    "name",
    COMPUTE
    + PREFIXED
    + ["pods", "count/pods", "hugepages-2Mi", "requests.hugepages-2Mi"]
    + ["requests.example.com/dongle", "requests.deviceclass.resource.kubernetes.io/gpu"],
)
def test_kubernetes_counts_these_for_pods(name):
    assert is_pod_name(name)


@pytest.mark.parametrize(
    "name",
    ["services", "requests.storage", "count/services", "limits.example.com/dongle", "requests."]
    + ["example.com/dongle", "requests.kubernetes.io/foo", "deviceclass.resource.kubernetes.io/gpu"]
    + MACHINES,
)
def test_kubernetes_does_not_count_these_for_pods(name):
    assert not is_pod_name(name)


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        (Unit.CORE, "cpu requests.cpu limits.cpu cpu/vmi requests.cpu/vmi"),
        (Unit.BYTES, "memory requests.memory limits.memory memory/vmi requests.memory/vmi"),
        (Unit.BYTES, "ephemeral-storage requests.ephemeral-storage limits.ephemeral-storage"),
        (Unit.BYTES, "storage requests.storage hugepages-2Mi requests.hugepages-1Gi"),
        (Unit.BYTES, "gold.storageclass.storage.k8s.io/requests.storage"),
        (Unit.COUNT, "pods count/pods instances/vmi requests.instances/vmi services"),
        (Unit.COUNT, "requests.example.com/dongle example.com/memory"),
        (Unit.COUNT, "gold.storageclass.storage.k8s.io/persistentvolumeclaims"),
    ],
)
def test_the_unit_is_that_of_the_amounts(unit, names):
    assert {name: unit_of(name) for name in names.split()} == dict.fromkeys(names.split(), unit)


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("requests.cpu", True),
        ("requests.storage", True),
        ("services.nodeports", True),
        ("count/widgets.example.com", True),
        ("fast.storageclass.storage.k8s.io/requests.storage", True),
        ("fast.storageclass.storage.k8s.io/persistentvolumeclaims", True),
        ("requests.example.com/gpu", True),
        ("cpuu", False),
        ("limits.storage", False),
    ],
)
def test_names_that_kubernetes_counts_are_known(name, is_known):
    assert is_known_name(name) is is_known
