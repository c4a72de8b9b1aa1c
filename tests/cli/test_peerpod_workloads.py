"""`bursar peerpod instance` for what makes pods: the template counts as one."""

from typing import Any

import pytest

from cli.test_peerpod import a_list, chosen, run
from support.builders.peer_pods import a_peer_pod, main

CATALOGUE = """
instanceTypes:
- {name: m5.large, vcpus: 2, memory: 8Gi}
- {name: c5.4xlarge, vcpus: 16, memory: 32Gi, price: 0.68}
"""


@pytest.fixture
def catalogue(tmp_path):
    path = tmp_path / "catalogue.yaml"
    path.write_text(CATALOGUE)
    return str(path)


def a_workload(kind: str, version: str, *steps: str, **pod: Any) -> dict[str, Any]:
    template: Any = {"metadata": {"labels": {"a": "b"}}, "spec": a_peer_pod(main(**pod))["spec"]}
    for step in reversed(steps):
        template = {step: template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **template}


WORKLOADS = [
    *(("apps/v1", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    *(("v1", "ReplicationController"), ("batch/v1", "Job")),
]


@pytest.mark.parametrize(
    ("version", "kind", "steps"),
    [
        *((version, kind, ["spec", "template"]) for version, kind in WORKLOADS),
        ("batch/v1", "CronJob", ["spec", "jobTemplate", "spec", "template"]),
        ("v1", "PodTemplate", ["template"]),
    ],
)
def test_a_workload_counts_as_the_pod_it_makes(catalogue, version, kind, steps):
    workload = a_workload(kind, version, *steps, requests="", limits="cpu=9")
    [entry] = chosen("--catalogue", catalogue, "-f", "-", stdin=workload)

    assert (entry["pod"], entry["template"], entry["vcpus"]) == ("default/x", f"{kind} x", 9)
    assert entry["instance"] == "c5.4xlarge"
    table = run("instance", "--catalogue", catalogue, "-f", "-", stdin=workload)
    assert table.out.splitlines()[1].startswith(f"default/x ({kind})   9 ")


def test_a_workload_of_another_class_or_group_is_none_of_ours(catalogue):
    other = a_workload("Deployment", "apps/v1", "spec", "template", requests="cpu=1")
    other["spec"]["template"]["spec"]["runtimeClassName"] = "runc"
    foreign = a_workload("Deployment", "example.com/v1", "spec", "template", requests="cpu=1")
    ran = run("instance", "--catalogue", catalogue, "-f", "-", stdin=a_list(other, foreign))

    assert ran.code == 2
    assert ran.err == (
        "no peer pod in these files: no Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, "
        "ReplicationController, Job, CronJob and PodTemplate of the runtime class kata-remote"
    )
