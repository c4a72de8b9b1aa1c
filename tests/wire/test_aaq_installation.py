"""Decoding of the objects of an AAQ installation."""

import json

import pytest

from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.wire.aaq_installation import (
    Metadata,
    Owner,
    decode_aaq,
    decode_deployment,
    decode_job_queue,
    decode_metadata,
    decode_webhooks,
)

LOCKS = ("a", "b")


def body(**fields) -> bytes:
    return json.dumps(fields).encode()


def test_metadata_has_owners_and_whether_the_object_is_being_deleted():
    owner = {"apiVersion": "aaq.kubevirt.io/v1alpha1", "kind": "AAQ", "name": "aaq"}
    read = decode_metadata(
        body(
            metadata={
                "name": "n",
                "namespace": "ns",
                "uid": "u",
                "resourceVersion": "7",
                "labels": {"a": "b"},
                "annotations": {"c": "d"},
                "ownerReferences": [owner, {}],
                "deletionTimestamp": "2026-11-17T00:00:00Z",
            }
        )
    )

    assert read == Metadata(
        namespace="ns",
        name="n",
        uid="u",
        resource_version="7",
        labels={"a": "b"},
        annotations={"c": "d"},
        owners=(
            Owner(api_version="aaq.kubevirt.io/v1alpha1", kind="AAQ", name="aaq"),
            Owner(api_version="", kind="", name=""),
        ),
        is_deleting=True,
    )
    assert (read.owners[0].group, str(read.owners[0])) == ("aaq.kubevirt.io", "AAQ aaq")


def test_an_empty_object_is_read_with_the_defaults_of_the_api():
    empty = Metadata(labels={}, annotations={})

    assert decode_metadata(b"{}") == empty
    deployment = decode_deployment(b"{}")
    assert (deployment.replicas, deployment.ready, deployment.arguments) == (1, 0, ())
    aaq = decode_aaq(b"{}")
    assert (aaq.selector, aaq.vmi_mode, aaq.sidecars, aaq.phase) == (None, "", (), "")
    webhooks = decode_webhooks(b"{}")
    assert (webhooks.webhooks, webhooks.conditions, webhooks.unselective) == ((), (), ())
    queue = decode_job_queue(b"{}", LOCKS)
    assert (queue.is_locked, queue.is_fully_locked, queue.pods) == (False, False, ())


def test_a_deployment_has_the_arguments_of_all_containers():
    containers = [{"name": "s", "command": ["run"]}, {"name": "c", "args": ["-v=1"]}, {}]
    read = decode_deployment(
        body(
            metadata={"generation": 3},
            spec={
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": containers}},
            },
            status={"readyReplicas": 2, "observedGeneration": 3},
        )
    )

    assert (read.replicas, read.ready, read.pod_labels) == (0, 2, {"a": "b"})
    assert (read.arguments, read.containers) == (("run", "-v=1"), ("s", "c", ""))


def test_a_status_of_an_earlier_spec_says_nothing():
    read = decode_deployment(
        body(metadata={"generation": 2}, status={"readyReplicas": 2, "observedGeneration": 1})
    )

    assert read.ready == 0


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ([], ""),
        (["-v=1", "--VMI_CALCULATOR_CONFIGURATION", "VirtualResources"], "VirtualResources"),
        (["--VMI_CALCULATOR_CONFIGURATION=VmiPodUsage"], "VmiPodUsage"),
        (["--VMI_CALCULATOR_CONFIGURATION"], ""),
    ],
)
def test_the_mode_of_vms_is_an_argument(arguments, mode):
    spec = {"template": {"spec": {"containers": [{"args": arguments}]}}}

    assert decode_deployment(body(spec=spec)).vmi_mode == mode


def test_an_aaq_object():
    read = decode_aaq(
        body(
            spec={
                "namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                "configuration": {
                    "vmiCalculatorConfiguration": {"configName": "VirtualResources"},
                    "sidecarEvaluators": [{"name": "one"}, {}],
                    "allowApplicationAwareClusterResourceQuota": True,
                },
            },
            status={"phase": "Deployed", "observedVersion": "v1.8.0"},
        )
    )

    assert read.selector == LabelSelector(
        match_expressions=(LabelExpression(key="k", operator="Exists"),)
    )
    assert (read.vmi_mode, read.sidecars) == ("VirtualResources", ("one", ""))
    assert (read.allows_cluster_quotas, read.phase, read.version) == (True, "Deployed", "v1.8.0")


def test_webhooks_with_their_conditions_and_namespaces():
    read = decode_webhooks(
        body(
            webhooks=[
                {"name": "all", "namespaceSelector": {}, "matchConditions": [{"name": "c"}, {}]},
                {"name": "some", "namespaceSelector": {"matchLabels": {"a": "b"}}},
                {},
            ]
        )
    )

    assert read.webhooks == ("all", "some", "")
    assert read.conditions == (frozenset({"c", ""}), frozenset(), frozenset())
    assert read.unselective == ("all", "")


@pytest.mark.parametrize(
    ("locks", "is_locked", "is_fully_locked"),
    [
        ({}, False, False),
        ({"a": False, "b": False}, False, False),
        ({"a": True}, True, False),
        ({"a": True, "b": True}, True, True),
    ],
)
def test_the_locks_of_a_namespace(locks, is_locked, is_fully_locked):
    status = {"podsInJobQueue": ["p"], "controllerLock": locks}
    read = decode_job_queue(body(status=status), LOCKS)

    assert (read.is_locked, read.is_fully_locked, read.pods) == (is_locked, is_fully_locked, ("p",))


def test_what_is_no_object_is_an_error_with_the_field():
    with pytest.raises(ValueError, match=r"spec\.replicas"):
        decode_deployment(body(spec={"replicas": "two"}))
