"""Amounts below zero, wherever a pod or node may carry one."""

import pytest

from bursar.wire.model.amounts import require_amounts_of_node, require_amounts_of_pod
from bursar.wire.structs.fields import FieldError
from support.builders.random_objects import as_node, as_pod

NEGATIVE = {"memory": "1Gi", "cpu": "-100m"}
PROBLEM = 'Invalid value: "-100m": must be greater than or equal to 0'


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (
            {"spec": {"containers": [{}, {"resources": {"requests": NEGATIVE}}]}},
            "spec.containers[1].resources.requests[cpu]",
        ),
        (
            {"spec": {"initContainers": [{"resources": {"limits": NEGATIVE}}]}},
            "spec.initContainers[0].resources.limits[cpu]",
        ),
        (
            {"spec": {"ephemeralContainers": [{"resources": {"limits": NEGATIVE}}]}},
            "spec.ephemeralContainers[0].resources.limits[cpu]",
        ),
        ({"spec": {"resources": {"limits": NEGATIVE}}}, "spec.resources.limits[cpu]"),
        ({"spec": {"overhead": NEGATIVE}}, "spec.overhead[cpu]"),
        (
            {"spec": {"volumes": [{"emptyDir": {}}, {"emptyDir": {"sizeLimit": "-100m"}}]}},
            "spec.volumes[1].emptyDir.sizeLimit",
        ),
        ({"status": {"resources": {"requests": NEGATIVE}}}, "status.resources.requests[cpu]"),
        ({"status": {"allocatedResources": NEGATIVE}}, "status.allocatedResources[cpu]"),
        (
            {"status": {"containerStatuses": [{"resources": {"limits": NEGATIVE}}]}},
            "status.containerStatuses[0].resources.limits[cpu]",
        ),
        (
            {"status": {"initContainerStatuses": [{"allocatedResources": NEGATIVE}]}},
            "status.initContainerStatuses[0].allocatedResources[cpu]",
        ),
    ],
)
def test_a_pod_may_not_ask_for_less_than_nothing(raw, field):
    with pytest.raises(FieldError) as caught:
        require_amounts_of_pod(as_pod(raw))

    assert (caught.value.field, caught.value.problem) == (field, PROBLEM)


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_a_node_may_not_have_less_than_nothing(field):
    with pytest.raises(FieldError) as caught:
        require_amounts_of_node(as_node({"status": {"allocatable": {}, field: NEGATIVE}}))

    assert (caught.value.field, caught.value.problem) == (f"status.{field}[cpu]", PROBLEM)


def test_zero_and_more_are_fine():
    amounts = {"cpu": "0", "memory": "1Gi"}
    volumes = [{"emptyDir": {"sizeLimit": "0"}}]

    require_amounts_of_pod(as_pod({"spec": {"overhead": amounts, "volumes": volumes}}))
    require_amounts_of_node(as_node({"status": {"capacity": amounts}}))
