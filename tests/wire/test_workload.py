"""Workloads: the pod they make, and how many."""

from typing import Any

import pytest

from bursar.core.model.quantity import Quantity
from bursar.wire.model.workloads.workload import WORKLOAD_KINDS, WorkloadTemplate, decode_workload
from bursar.wire.structs.fields import FieldError

TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "ignored", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]},
}
META: dict[str, Any] = {"name": "web", "namespace": "shop"}


def workload(kind: str, **spec: Any) -> WorkloadTemplate:
    return decode_workload(kind, {"metadata": META, "spec": {"template": TEMPLATE, **spec}})


def refusal(kind: str, value: Any) -> str:
    with pytest.raises(FieldError) as caught:
        decode_workload(kind, value)
    return str(caught.value)


def test_the_pod_has_the_owners_name_and_the_templates_rest():
    made = workload("Deployment", replicas=3)

    assert (made.owner_kind, made.owner_name, made.replicas) == ("Deployment", "web", 3)
    assert (made.pod.namespace, made.pod.name) == ("shop", "web")
    assert made.pod.labels == {"app": "web"}
    assert str(made) == "Deployment web, 3 replicas"
    assert made.pod.containers[0].resources.limits == {"cpu": Quantity.parse("2")}


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 0}, 0),
        ("ReplicaSet", {"replicas": 2}, 2),
        ("StatefulSet", {}, 1),
        ("ReplicationController", {"replicas": 4}, 4),
        ("DaemonSet", {}, None),
        ("Job", {}, 1),
        ("Job", {"parallelism": 5}, 5),
        ("Job", {"parallelism": 5, "completions": 3}, 3),
        ("Job", {"completions": 3}, 1),
        ("Job", {"parallelism": 0}, 0),
    ],
)
def test_replicas_are_pods_at_once(kind, spec, replicas):
    assert workload(kind, **spec).replicas == replicas


def test_a_cron_job_holds_a_job():
    job = {"spec": {"parallelism": 2, "template": TEMPLATE}}
    made = decode_workload("CronJob", {"metadata": META, "spec": {"jobTemplate": job}})

    assert (made.owner_name, made.replicas, made.pod.name) == ("web", 2, "web")


def test_a_pod_template_makes_nothing_by_itself():
    made = decode_workload("PodTemplate", {"metadata": META, "template": TEMPLATE})

    assert (made.replicas, made.pod.name) == (None, "web")


def test_a_name_may_be_generated_or_missing():
    assert decode_workload("Job", {"spec": {"template": {}}}).owner_name == ""
    generated = {"metadata": {"generateName": "run-"}, "spec": {"template": {}}}
    assert decode_workload("Job", generated).pod.name == "run-"


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("CronJob", "spec.jobTemplate.spec.template"),
        ("DaemonSet", "spec.template"),
        ("Deployment", "spec.template"),
        ("Job", "spec.template"),
        ("PodTemplate", "template"),
    ],
)
def test_a_workload_needs_a_template(kind, field):
    assert refusal(kind, {"metadata": META}) == f"{field}: required, but missing"


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            "Deployment",
            {"replicas": -1},
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "Job",
            {"parallelism": -2},
            "spec.parallelism: Invalid value: -2: must be greater than or equal to 0",
        ),
        (
            "Job",
            {"completions": -2},
            "spec.completions: Invalid value: -2: must be greater than or equal to 0",
        ),
        (
            "Deployment",
            {"replicas": "3"},
            "spec.replicas: a whole number is expected, found a string",
        ),
        (
            "Deployment",
            {"template": {"spec": {"overhead": {"cpu": "?"}}}},
            "spec.template.spec.overhead[cpu]: quantities must match",
        ),
        (
            "Deployment",
            {"template": {"spec": {"overhead": {"cpu": -1}}}},
            'spec.template.spec.overhead[cpu]: Invalid value: "-1"',
        ),
    ],
)
def test_a_bad_field_is_named_from_the_workload(kind, spec, message):
    value = {"metadata": META, "spec": {"template": TEMPLATE, **spec}}

    assert refusal(kind, value).startswith(message)


def test_all_kinds_that_make_pods_are_known():
    assert sorted(WORKLOAD_KINDS) == [
        "CronJob", "DaemonSet", "Deployment", "Job",
        "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet",
    ]  # fmt: skip


def test_a_stateful_set_has_claims_for_each_pod():
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
        },
        {"spec": {"resources": {}}},
        {},
    ]
    made = workload("StatefulSet", volumeClaimTemplates=claims)

    assert [(each.name, each.storage_class, each.storage) for each in made.claims] == [
        ("data", "fast", Quantity.parse("1Gi")),
        ("", "", None),
        ("", "", None),
    ]
    assert workload("Deployment", volumeClaimTemplates=claims).claims == ()


def test_a_claim_cannot_ask_for_less_than_nothing():
    claim = {"spec": {"resources": {"requests": {"storage": "-1"}}}}
    value = {"metadata": META, "spec": {"template": TEMPLATE, "volumeClaimTemplates": [claim]}}

    assert refusal("StatefulSet", value) == (
        "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: "
        'Invalid value: "-1": must be greater than or equal to 0'
    )


def test_a_cron_job_says_whether_runs_may_overlap():
    job = {"spec": {"template": TEMPLATE}}
    spec = {"jobTemplate": job, "concurrencyPolicy": "Forbid"}

    assert decode_workload("CronJob", {"spec": spec}).concurrency_policy == "Forbid"
    assert decode_workload("CronJob", {"spec": {"jobTemplate": job}}).concurrency_policy == ""
