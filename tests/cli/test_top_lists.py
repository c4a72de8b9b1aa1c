"""`bursar top nodes|namespaces|pods|quotas|devices` as a user meets them, with files."""

import csv
import io
import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.reports.describe import describe
from bursar.cli.top.top import top
from bursar.entry.processes import ComposedProcesses
from support.builders.manifests import (
    a_manifest,
    arq_manifest,
    namespace_manifest,
    node_manifest,
    pod_manifest,
)

GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
CORDONED = {"spec": {"unschedulable": True}}
METRICS = "metrics.k8s.io/v1beta1"


def owned(kind: str, name: str, **labels: str) -> dict[str, Any]:
    owner = {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    return {"labels": labels, "ownerReferences": [owner]}


def zone(name: str) -> dict[str, Any]:
    return {"labels": {ZONE: name}}


HASHED = {"labels": {"app": "web", "pod-template-hash": "5d4f"}}
WEB = owned("ReplicaSet", "web-5d4f", app="web") | HASHED

SCENE = [
    node_manifest("worker-1", f"cpu=4 memory=16Gi pods=110 {GPU}=2", metadata=zone("a")),
    node_manifest("worker-2", "cpu=8 memory=32Gi pods=110", metadata=zone("b")) | CORDONED,
    namespace_manifest("shop", team="red"),
    namespace_manifest("lab", team="blue"),
    pod_manifest(
        "shop/web-5d4f-a",
        requests="cpu=500m memory=1Gi",
        limits="cpu=1 memory=2Gi",
        node="worker-1",
        phase="Running",
        metadata=WEB,
    ),
    pod_manifest("shop/web-5d4f-b", requests="cpu=500m memory=1Gi", metadata=WEB),
    pod_manifest(
        "lab/train-1",
        requests=f"cpu=1500m memory=3Gi {GPU}=1",
        limits=f"{GPU}=1",
        node="worker-1",
        phase="Running",
        metadata=owned("Job", "train-1"),
    ),
    a_manifest("batch/v1", "Job", "lab/train-1", owned("CronJob", "train"), spec={"template": {}}),
    pod_manifest("lab/done", requests="cpu=8", node="worker-2", phase="Succeeded"),
    pod_manifest("lab/old", requests="cpu=2", node="worker-2", phase="Running"),
]
USAGE = [
    a_manifest(METRICS, "NodeMetrics", "worker-1", usage={"cpu": "1234567890n", "memory": "4Gi"}),
    a_manifest(
        METRICS,
        "PodMetrics",
        "lab/train-1",
        containers=[{"name": "c", "usage": {"cpu": "1001m", "memory": "2Gi"}}],
    ),
]


def asked(*arguments: str, scene: list[dict[str, Any]] = SCENE, group=top) -> Result:
    return CliRunner().invoke(
        group,
        [*arguments, "-f", "-"],
        input="\n---\n".join(map(json.dumps, scene)),
        standalone_mode=False,
        obj=ComposedProcesses(),
    )


def table(*arguments: str, **how: Any) -> list[str]:
    ran = asked(*arguments, **how)
    assert (ran.return_value, ran.exception) == (0, None)
    return ran.stdout.splitlines()


def heads(line: str) -> list[str]:
    return re.split(r" {3,}", line)


def document(*arguments: str, **how: Any) -> Any:
    return json.loads(asked(*arguments, "-o", "json", **how).stdout)


def rows_of(*arguments: str, **how: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(asked(*arguments, "-o", "csv", **how).stdout)))


# ------------------------------------------------------------------ nodes


def test_nodes_have_requests_with_percentages_and_what_is_free():
    assert table("nodes") == [
        "NODE       PODS    CPU REQ   CPU FREE   MEM REQ     MEM FREE",
        "worker-1   2/110   2 (50%)   2          4Gi (25%)   12Gi",
        "worker-2   1/110   2 (25%)   -          0           -",
        "(all)      3/220   4 (33%)   2          4Gi (8%)    12Gi",
    ]


def test_wide_nodes_have_limits_status_and_extended_resources():
    head, first, second, _ = table("nodes", "-o", "wide")

    for column in ("STATUS", "PODS FREE", "CPU ALLOC", "CPU LIM", f"{GPU.upper()} FREE"):
        assert column in head
    # An extended resource is never overcommitted: its limit is its request.
    assert f"{GPU.upper()} LIM" not in head
    assert "1 (25%)" in first
    assert "Unknown,SchedulingDisabled" in second


def test_with_one_resource_there_is_room_for_all_of_it():
    head, first, *_ = table("nodes", "--resource", "cpu")

    assert heads(head) == ["NODE", "CPU ALLOC", "CPU REQ", "CPU LIM", "CPU FREE"]
    assert first.split() == ["worker-1", "4", "2", "(50%)", "1", "(25%)", "2"]


def test_usage_is_beside_requests_if_a_metrics_server_answers():
    scene = [*SCENE, *USAGE]
    assert table("nodes", scene=scene) == [
        "NODE       CPU REQ   CPU USED   CPU FREE   MEM REQ   MEM USED   MEM FREE",
        "worker-1   50%       30%        2          25%       25%        12Gi",
        "worker-2   25%       -          -          0%        -          -",
        "(all)      33%       10%        2          8%        8%         12Gi",
    ]
    head, first, second, total = table("nodes", "--resource", "cpu", scene=scene)

    assert heads(head) == ["NODE", "CPU ALLOC", "CPU REQ", "CPU LIM", "CPU USED", "CPU FREE"]
    assert first.split()[6:8] == ["1235m", "(30%)"]
    assert second.split()[-2:] == ["-", "-"]
    assert total.split()[-3:] == ["1235m", "(10%)", "2"]


def test_metrics_that_cannot_be_read_are_left_out():
    broken = a_manifest(METRICS, "NodeMetrics", "worker-1", usage={"cpu": "x\x1b"})
    ran = asked("nodes", scene=[*SCENE, broken])

    assert ran.return_value == 0
    assert "CPU USED" not in ran.stdout
    assert ran.stderr.startswith("bursar: left out: NodeMetrics: usage[cpu]: ")
    assert "\x1b" not in ran.stderr


def test_nodes_are_grouped_by_a_label():
    assert [line.split()[:3] for line in table("nodes", "--group-by", f"label:{ZONE}")] == [
        [ZONE.upper(), "NODES", "PODS"],
        ["a", "1", "2/110"],
        ["b", "1", "1/110"],
        ["(all)", "2", "3/220"],
    ]


def test_nodes_are_selected_and_sorted():
    assert asked("nodes", "-l", f"{ZONE}=a", "-o", "name").stdout == "node/worker-1\n"
    assert [row["NODE"] for row in rows_of("nodes", "--sort-by", "-cpu-alloc")] == [
        *("worker-2", "worker-1")
    ]
    assert [row["NODE"] for row in rows_of("nodes", "--sort-by", "mem")] == [
        *("worker-2", "worker-1")
    ]


def test_documents_are_sorted_as_well():
    found = document("nodes", "--sort-by", "-cpu-alloc")

    assert [each["node"] for each in found["nodes"]] == ["worker-2", "worker-1"]
    assert found["nodes"][1]["resources"]["cpu"] == {
        "requests": "2",
        "requestsPercent": 50,
        "limits": "1",
        "limitsPercent": 25,
        "allocatable": "4",
        "free": "2",
    }
    assert found["total"]["pods"] == 3


def test_one_namespace_is_told_on_nodes_without_freeing_the_others():
    first, second = document("nodes", "-n", "shop")["nodes"]

    assert first["resources"]["cpu"]["requests"] == "500m"
    assert first["resources"]["cpu"]["free"] == "2"
    assert second["pods"] == 0


def test_csv_has_exact_amounts():
    node = node_manifest("n", "cpu=63900m memory=65811260Ki pods=110")
    [row] = rows_of("nodes", scene=[node])

    assert (row["CPU FREE"], row["MEM FREE"]) == ("63900m", "65811260Ki")
    assert row["MEM ALLOC"] == "65811260Ki"


# ------------------------------------------------------------------ namespaces


def test_namespaces_count_pods_without_a_node():
    assert table("namespaces") == [
        "NAMESPACE   PODS   CPU REQ       CPU LIM   MEM REQ     MEM LIM",
        "lab         2      3500m (29%)   0         3Gi (6%)    0",
        "shop        2      1 (8%)        1         2Gi (4%)    2Gi",
        "(all)       4      4500m (37%)   1         5Gi (10%)   2Gi",
    ]


def test_namespaces_are_grouped_and_selected_by_their_labels():
    found = document("namespaces", "--group-by", "label:team")

    assert [(each["value"], each["pods"]) for each in found["groups"]] == [("blue", 2), ("red", 2)]
    assert found["groups"][1]["podsWithoutNode"] == 1
    assert found["groups"][0]["resources"]["cpu"]["requestsPercent"] == 29
    assert asked("namespaces", "-l", "team=red", "-o", "name").stdout == "namespace/shop\n"


def test_usage_takes_the_place_of_limits():
    head, lab, shop, _ = table("namespaces", scene=[*SCENE, *USAGE])

    assert heads(head)[2:] == ["CPU REQ", "CPU USED", "MEM REQ", "MEM USED"]
    assert (lab.split()[4], shop.split()[4]) == ("1001m", "-")


# ------------------------------------------------------------------ pods


def test_pods_are_listed_with_their_namespace_unless_it_is_given():
    assert table("pods") == [
        "NAMESPACE   POD          CPU REQ   CPU LIM   MEM REQ   MEM LIM",
        "lab         old          2         0         0         0",
        "lab         train-1      1500m     0         3Gi       0",
        "shop        web-5d4f-a   500m      1         1Gi       2Gi",
        "shop        web-5d4f-b   500m      0         1Gi       0",
        "(all)                    4500m     1         5Gi       2Gi",
    ]
    assert table("pods", "-n", "shop")[0].split()[0] == "POD"


def test_pods_are_grouped_by_the_owner_at_the_top():
    found = document("pods", "--group-by", "owner")["groups"]

    assert [(each["namespace"], each["owner"], each["pods"]) for each in found] == [
        ("lab", "CronJob/train", 1),
        ("lab", "Pod/old", 1),
        ("shop", "Deployment/web", 2),
    ]
    assert asked("pods", "--group-by", "owner", "-n", "shop", "-o", "name").stdout == (
        "deployment/web\n"
    )


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("node", ["(none)", "worker-1", "worker-2"]),
        ("namespace", ["lab", "shop"]),
        ("label:app", ["(none)", "web"]),
    ],
)
def test_pods_are_grouped_by_other_things(group, names):
    lines = table("pods", "--group-by", group)

    assert [line.split()[0] for line in lines[1:-1]] == names
    total = lines[-1].split()
    assert total[:3] == ["(all)", "4", "4500m"]


def test_pods_are_selected_by_fields():
    assert asked("pods", "--field-selector", "spec.nodeName=worker-2", "-o", "name").stdout == (
        "pod/old\n"
    )


def test_workloads_without_pods_are_pointed_at_describe():
    deployment = a_manifest(
        "apps/v1", "Deployment", "shop/web", spec={"template": {"spec": {"containers": []}}}
    )
    ran = asked("pods", scene=[deployment])

    assert ran.return_value == 0
    assert ran.stderr == (
        "bursar: no pods found; pods of 1 workloads do not exist yet "
        "(bursar describe pod shows what they will request)\n"
    )


# ------------------------------------------------------------------ quotas

QUOTAS = [
    a_manifest(
        "v1", "Namespace", "shop", {"labels": {"application-aware-quota/enable-gating": ""}}
    ),
    arq_manifest("shop/team", {"requests.cpu": "1", "pods": "10", "services": "5"}),
    arq_manifest("shop/tight", {"requests.memory": "512Mi", "requests.cpu/vmi": "1"}),
    a_manifest("v1", "ResourceQuota", "lab/native", spec={"hard": {"requests.cpu": "0"}}),
    pod_manifest("shop/a", requests="cpu=1 memory=1Gi", node="n", phase="Running"),
    pod_manifest("shop/b", "ApplicationAwareQuotaGate", requests="cpu=500m", phase="Pending"),
]


def test_quotas_show_what_is_exhausted_and_who_waits():
    assert table("quotas", scene=QUOTAS) == [
        "NAMESPACE   QUOTA    RESOURCE           USED         HARD    FREE            WAITING",
        "lab         native   requests.cpu       0            0       full            0",
        "shop        team     pods               1 (10%)      10      9               0",
        "shop        team     requests.cpu       1 (100%)     1       full            1",
        "shop        team     services           -            5       -               0",
        "shop        tight    requests.cpu/vmi   0 (0%)       1       not counted     0",
        "shop        tight    requests.memory    1Gi (200%)   512Mi   over by 512Mi   0",
    ]


def test_pods_of_the_default_namespace_wait_as_others_do():
    gating = {"labels": {"application-aware-quota/enable-gating": ""}}
    scene = [
        a_manifest("v1", "Namespace", "default", gating),
        arq_manifest("default/none", {"pods": "0"}),
        pod_manifest("default/a", "ApplicationAwareQuotaGate", phase="Pending"),
    ]

    assert table("quotas", scene=scene)[1].split()[-1] == "1"


def test_quotas_of_one_namespace_and_resource():
    found = document("quotas", "-n", "shop", "--resource", "requests.cpu", scene=QUOTAS)["quotas"]

    assert found == [
        {
            "kind": "ApplicationAwareResourceQuota",
            "namespace": "shop",
            "quota": "team",
            "resource": "requests.cpu",
            "used": "1",
            "hard": "1",
            "percent": 100,
            "free": "0",
            "overBy": None,
            "recounted": True,
            "counted": True,
            "waitingPods": 1,
            "queuedPods": 1,
        }
    ]


def test_quotas_are_sorted_and_named_once():
    ran = asked("quotas", "--sort-by", "-percent", "-o", "name", scene=QUOTAS)

    assert ran.stdout.splitlines() == [
        "applicationawareresourcequota/tight",
        "applicationawareresourcequota/team",
        "resourcequota/native",
    ]


def test_quotas_are_the_recount_of_describe_quota():
    described = json.loads(asked("quota", "-o", "json", scene=QUOTAS, group=describe).stdout)
    used = {
        (quota["kind"], quota["name"], name): amount
        for quota in described
        for name, amount in quota["used"].items()
    }

    assert used == {
        (each["kind"], each["quota"], each["resource"]): each["used"]
        for each in document("quotas", scene=QUOTAS)["quotas"]
        if each["recounted"]
    }


def test_no_quota_is_told():
    assert asked("quotas", "-n", "shop").stderr == "bursar: no quota found in namespace shop\n"


# ------------------------------------------------------------------ devices


def test_devices_are_listed_with_totals_and_holders():
    assert table("devices", "-o", "wide") == [
        "NODE       RESOURCE         CAPACITY   ALLOCATABLE   ALLOCATED   FREE   PODS   HELD BY",
        f"worker-1   {GPU}   2          2             1           1      1      lab/train-1 (1)",
        f"(all)      {GPU}   2          2             1           1      1      lab/train-1 (1)",
    ]
    found = document("devices", "--group-by", "resource")
    assert [each["free"] for each in found["devices"]] == ["1"]
    assert asked("devices", "--group-by", "resource", "-o", "name").stdout == f"{GPU}\n"


def test_a_cordoned_node_has_no_free_device():
    [row] = [
        row
        for row in rows_of("devices", "--resource", "cpu", "--sort-by", "free")
        if row["NODE"] == "worker-2"
    ]

    assert (row["ALLOCATED"], row["FREE"]) == ("2", "")


# ------------------------------------------------------------------ all of them


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["nodes", "worker-2"], ["node/worker-2"]),
        (["node/worker-2"], ["node/worker-2"]),
        (["pods", "old", "train-1"], ["pod/old", "pod/train-1"]),
        (["po/old", "-n", "lab"], ["pod/old"]),
        (["namespaces", "lab"], ["namespace/lab"]),
    ],
)
def test_rows_may_be_asked_for_by_name_as_kubectl_does(words, rows):
    assert asked(*words, "-o", "name").stdout.splitlines() == rows


def test_quotas_may_be_asked_for_by_name():
    assert asked("quota", "team", "-o", "name", scene=QUOTAS).stdout.splitlines() == [
        "applicationawareresourcequota/team"
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nodes", "x\x1b"], "no node called x\\x1b"),
        (["pods", "old", "-n", "shop"], "no pod called old in namespace shop"),
        (["namespaces", "empty"], "no namespace with pods called empty"),
        (["quotas", "q"], "no quota called q"),
        (["nodes", "--resource", "a b\x1b"], "--resource: a b\\x1b is not the name of a resource"),
        (["nodes", "--group-by", "owner"], "--group-by: no group owner; the groups are: label:KEY"),
        (["pods", "--sort-by", "gpu\x1b"], "--sort-by: no column gpu\\x1b; the columns are: "),
    ],
)
def test_bad_input_is_told_with_what_would_be_good(words, problem):
    ran = asked(*words)

    assert isinstance(ran.exception, BadInputError)
    assert str(ran.exception).startswith(problem)


@pytest.mark.parametrize("usage", [[], USAGE], ids=["", "usage"])
@pytest.mark.parametrize("subverb", ["nodes", "namespaces", "pods", "devices"])
def test_default_tables_fit_into_80_columns(subverb, usage):
    names = {"worker-1": "prod-pool-1-x7k", "web-5d4f": "checkout-6c9d8f7b5d"}
    text = json.dumps([*SCENE, *usage])
    for short, usual in names.items():
        text = text.replace(short, usual)
    lines = table(subverb, scene=json.loads(text))

    assert max(map(len, lines)) <= 80
