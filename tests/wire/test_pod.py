"""Pods from the API's words to the core's."""

from datetime import UTC, datetime

import pytest

from bursar.core.model import pod as core
from bursar.core.model.quantity import Quantity
from bursar.wire.structs.fields import FieldError
from support.builders.random_objects import as_pod

REQUIREMENTS = {"requests": {"cpu": "1"}, "limits": {"cpu": 2}, "claims": [{"name": "gpu"}]}
EXPECTED_REQUIREMENTS = core.ResourceRequirements(
    requests={"cpu": Quantity.parse("1")},
    limits={"cpu": Quantity.parse("2")},
    claims=(core.ClaimReference(name="gpu"),),
)


def test_an_empty_pod_is_all_defaults():
    assert as_pod({}) == core.Pod(namespace="", name="")


def test_null_is_the_same_as_missing():
    assert as_pod({"metadata": None, "spec": None, "status": None}) == as_pod({})
    assert as_pod(
        {
            "metadata": {"name": None, "labels": None, "creationTimestamp": None},
            "spec": {"containers": None, "os": None, "overhead": None, "volumes": None},
            "status": {"conditions": None, "phase": None},
        }
    ) == as_pod({})


def test_every_field_of_the_spec_arrives():
    pod = as_pod(
        {
            "metadata": {
                "generateName": "web-",
                "namespace": "shop",
                "uid": "u",
                "labels": {"a": "b"},
                "annotations": {"c": None},
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {
                "containers": [{"name": "a", "image": "i", "resources": REQUIREMENTS}],
                "initContainers": [{"name": "b", "restartPolicy": "Always"}],
                "ephemeralContainers": [{}],
                "resources": REQUIREMENTS,
                "overhead": {"cpu": "1"},
                "resourceClaims": [{"name": "gpu"}, {}],
                "volumes": [{"name": "v"}, {"emptyDir": {"medium": "Memory", "sizeLimit": 5}}]
                + [{"name": "w", "emptyDir": {}}],
                "nodeName": "n",
                "os": {"name": "linux"},
                "priority": 7,
                "priorityClassName": "high",
                "schedulingGates": [{"name": "g"}],
            },
        }
    )

    assert pod == core.Pod(
        namespace="shop",
        name="web-",
        uid="u",
        labels={"a": "b"},
        annotations={"c": ""},
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        containers=(core.Container(name="a", image="i", resources=EXPECTED_REQUIREMENTS),),
        init_containers=(core.Container(name="b", restart_policy="Always"),),
        ephemeral_containers=(core.Container(name=""),),
        resources=EXPECTED_REQUIREMENTS,
        overhead={"cpu": Quantity.parse("1")},
        claim_names=("gpu", ""),
        empty_dirs=(
            core.EmptyDir(index=1, name="", medium="Memory", size_limit=Quantity.parse("5")),
            core.EmptyDir(index=2, name="w"),
        ),
        node_name="n",
        os_name="linux",
        priority=7,
        priority_class="high",
        scheduling_gates=("g",),
    )


def test_where_a_pod_may_run_arrives():
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", None]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
        ]
    }
    pod = as_pod(
        {
            "spec": {
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}, {}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
                },
            }
        }
    )

    zone = core.NodeRequirement(key="zone", operator="In", values=("a", ""))
    name = core.NodeRequirement(key="metadata.name", operator="Exists")
    assert pod.node_terms == (core.NodeTerm(expressions=(zone,)), core.NodeTerm(fields=(name,)))
    assert pod.tolerations == (
        core.Toleration(key="k", operator="Exists", effect="NoSchedule"),
        core.Toleration(),
    )


@pytest.mark.parametrize("affinity", [{}, {"nodeAffinity": {}}])
def test_an_affinity_without_required_terms_restricts_nothing(affinity):
    assert as_pod({"spec": {"affinity": affinity}}).node_terms is None


def test_every_field_of_the_status_arrives():
    pod = as_pod(
        {
            "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
                "containerStatuses": [
                    {
                        "name": "a",
                        "resources": REQUIREMENTS,
                        "allocatedResources": {"cpu": "1"},
                        "ready": True,
                        "restartCount": 3,
                        "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    },
                    {"state": {}, "lastState": {"waiting": {"reason": "CrashLoopBackOff"}}},
                ],
                "initContainerStatuses": [{"name": "b"}],
                "resources": REQUIREMENTS,
                "allocatedResources": {"cpu": "1"},
            }
        }
    )
    first, second = pod.container_statuses

    assert pod.phase == "Running"
    assert pod.reported_qos == "Burstable"
    assert pod.conditions == (core.Condition(type="Ready", status="True", reason="r", message="m"),)
    assert first.resources == pod.status_resources == EXPECTED_REQUIREMENTS
    assert first.allocated == pod.status_allocated == {"cpu": Quantity.parse("1")}
    assert (first.ready, first.restart_count) == (True, 3)
    assert first.state == core.ContainerState(
        kind="running", started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    assert first.last_state == core.ContainerState(
        kind="terminated", exit_code=137, reason="OOMKilled"
    )
    assert (second.name, second.state, second.ready) == ("", None, False)
    assert second.last_state == core.ContainerState(kind="waiting", reason="CrashLoopBackOff")
    assert pod.init_container_statuses == (core.ContainerStatus(name="b"),)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (
            {"spec": {"containers": [{}, {"resources": {"limits": {"a/b": "x"}}}]}},
            "spec.containers[1].resources.limits[a/b]",
        ),
        (
            {"spec": {"initContainers": [{"resources": {"requests": {"cpu": "x"}}}]}},
            "spec.initContainers[0].resources.requests[cpu]",
        ),
        (
            {"spec": {"volumes": [{}, {"emptyDir": {"sizeLimit": "x"}}]}},
            "spec.volumes[1].emptyDir.sizeLimit",
        ),
        ({"spec": {"resources": {"limits": {"cpu": "x"}}}}, "spec.resources.limits[cpu]"),
        (
            {"status": {"containerStatuses": [{"allocatedResources": {"cpu": "x"}}]}},
            "status.containerStatuses[0].allocatedResources[cpu]",
        ),
        (
            {"status": {"initContainerStatuses": [{"state": {"running": {"startedAt": "x"}}}]}},
            "status.initContainerStatuses[0].state.running.startedAt",
        ),
        ({"metadata": {"creationTimestamp": "x"}}, "metadata.creationTimestamp"),
    ],
)
def test_a_bad_field_is_named(raw, field):
    with pytest.raises(FieldError) as caught:
        as_pod(raw)

    assert caught.value.field == field
