"""What all pods of a workload ask for together."""

import pytest

from bursar.app.reports.pod import pod_report
from bursar.app.reports.replicas import (
    ReplicasReport,
    ScalingObjects,
    replicas_report,
    scaling_objects,
)
from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.wire.model.workloads.autoscaler import Autoscaler
from bursar.wire.model.workloads.workload import ClaimTemplate, WorkloadTemplate
from support.builders.pods import parsed


def a_node(name: str, *taints: Taint) -> Node:
    return Node(name=name, allocatable=parsed("cpu=2 memory=4Gi pods=10"), taints=taints)


POD = Pod(
    namespace="shop",
    name="web",
    containers=(
        Container(
            name="c",
            resources=ResourceRequirements(
                requests=parsed("cpu=250m"), limits=parsed("memory=1Gi")
            ),
        ),
    ),
)


def a_template(kind: str = "Deployment", replicas: int | None = 3, **more: object):
    return WorkloadTemplate(owner_kind=kind, owner_name="web", replicas=replicas, pod=POD, **more)


def reported(template: WorkloadTemplate, scaling: ScalingObjects | None = None) -> ReplicasReport:
    report = pod_report(template.pod)
    return replicas_report(
        template, report.pod, report.requests, report.limits, scaling or ScalingObjects()
    )


def test_requests_and_limits_are_multiplied():
    report = reported(a_template())

    assert report.per_pod == {
        "requests.cpu": Quantity.parse("250m"),
        "requests.memory": Quantity.parse("1Gi"),
        "limits.memory": Quantity.parse("1Gi"),
        "pods": Quantity.of(1),
    }
    (total,) = report.totals
    assert (total.count, total.meaning) == (3, "replicas")
    assert str(total.amounts["requests.cpu"]) == "750m"
    assert str(total.amounts["limits.memory"]) == "3Gi"


@pytest.mark.parametrize(("namespace", "is_meant"), [("shop", True), ("elsewhere", False)])
def test_an_autoscaler_of_the_same_namespace_gives_the_range(namespace, is_meant):
    scaler = Autoscaler(
        namespace=namespace,
        name="hpa",
        target_kind="Deployment",
        target_name="web",
        minimum=2,
        maximum=10,
    )
    report = reported(a_template(), scaling_objects([scaler], (), "default"))

    bounds = [(2, "HPA minimum"), (10, "HPA maximum")] if is_meant else []
    assert [(each.count, each.meaning) for each in report.totals] == [(3, "replicas"), *bounds]


def test_claims_are_counted_as_a_quota_counts_them():
    claims = (
        ClaimTemplate(name="a", storage_class="fast", storage=Quantity.parse("10Gi")),
        ClaimTemplate(name="b", storage_class="fast", storage=Quantity.parse("5Gi")),
        ClaimTemplate(name="c", storage_class="", storage=None),
    )
    report = reported(a_template("StatefulSet", 2, claims=claims))

    (total,) = report.totals
    assert {name: str(total.amounts[name]) for name in list(total.amounts)[-4:]} == {
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "4",
        "fast.storageclass.storage.k8s.io/requests.storage": "30Gi",
        "persistentvolumeclaims": "6",
        "requests.storage": "30Gi",
    }
    assert report.notes == ("claims without a class get the cluster's default StorageClass",)


def test_a_daemon_set_has_a_pod_on_each_node_that_takes_it():
    tainted = a_node("b", Taint(key="gpu", value="", effect="NoSchedule"))
    report = reported(
        a_template("DaemonSet", None), scaling_objects([], [a_node("a"), tainted], "x")
    )
    unknown = reported(a_template("DaemonSet", None))

    assert [(each.count, each.meaning) for each in report.totals] == [(1, "nodes that take it")]
    assert unknown.totals == ()
    assert unknown.notes == ("one pod on each node that takes it; the input has no nodes",)


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        ("Forbid", "one run at a time (concurrencyPolicy Forbid)"),
        ("Replace", "one run at a time, a new one replaces it (concurrencyPolicy Replace)"),
        ("Allow", "of one run; runs may overlap (concurrencyPolicy Allow)"),
        ("", "of one run; runs may overlap (concurrencyPolicy Allow)"),
    ],
)
def test_a_cron_job_says_what_one_run_asks_for(policy, note):
    report = reported(a_template("CronJob", 2, concurrency_policy=policy))

    assert [(each.count, each.meaning) for each in report.totals] == [(2, "in one run")]
    assert report.notes == (note,)


def test_jobs_run_pods_in_parallel_and_templates_none():
    assert reported(a_template("Job", 4)).totals[0].meaning == "in parallel"
    assert reported(a_template("PodTemplate", None)).totals == ()
