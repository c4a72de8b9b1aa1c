"""`bursar describe quota` as a user meets it, with files."""

import json
from pathlib import Path

import pytest

from support.processes.command_line import run_bursar

MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: blue}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: shop, namespace: shop}
spec:
  hard: {pods: "3", requests.memory: 1Gi, services: "5"}
  scopeSelector:
    matchExpressions:
    - {scopeName: PriorityClass, operator: NotIn, values: [high, low]}
    - {scopeName: NotTerminating, operator: Exists}
    - {scopeName: PriorityClass, operator: DoesNotExist}
status: {hard: {pods: "3"}, used: {pods: "2", requests.memory: 600Mi, services: "1"}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: native}
spec: {hard: {count/pods: "9", pods: "9"}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareClusterResourceQuota
metadata: {name: blue}
spec: {quota: {hard: {pods: "9"}}, selector: {labels: {matchLabels: {team: blue}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {memory: 600Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: shop}
spec:
  schedulingGates: [{name: ApplicationAwareQuotaGate}]
  containers: [{name: c, image: i}]
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {containers: [{name: c, image: i}]}
status: {phase: Succeeded}
"""
WORKLOAD = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
"""
TEXT = """\
Name:        native
Namespace:   default
Kind:        ResourceQuota
Resource     Used  Hard  Reported
--------     ----  ----  --------
count/pods   1     9     -
pods         0     9     -

Name:            shop
Namespace:       shop
Kind:            ApplicationAwareResourceQuota
Scopes:          PriorityClass NotIn (high, low), NotTerminating, PriorityClass DoesNotExist
Resource         Used   Hard  Reported
--------         ----   ----  --------
pods             1      3     2  <- differs
requests.memory  600Mi  1Gi   600Mi
services         -      5     1

Name:        blue
Namespaces:  shop
Kind:        ApplicationAwareClusterResourceQuota
Resource     Used  Hard  Reported
--------     ----  ----  --------
pods         1     9     -
"""


def described(*arguments, stdin=MANIFESTS):
    return run_bursar("describe", "quota", "-f", "-", *arguments, stdin=stdin.encode())


def listed(*arguments, stdin=MANIFESTS):
    ran = described(*arguments, "-o", "json", stdin=stdin)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_each_quota_is_shown_as_kubectl_would_with_both_counts():
    ran = described()

    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines()] == [
        line.split() for line in TEXT.splitlines()
    ]


def test_the_document_is_a_list_of_what_is_allowed_recounted_and_reported():
    native, shop, blue = listed()

    assert shop == {
        "kind": "ApplicationAwareResourceQuota",
        "namespace": "shop",
        "name": "shop",
        "covers": ["shop"],
        "scopes": [
            {"scope": "PriorityClass", "operator": "NotIn", "values": ["high", "low"]},
            {"scope": "NotTerminating", "operator": "Exists", "values": []},
            {"scope": "PriorityClass", "operator": "DoesNotExist", "values": []},
        ],
        "hard": {"pods": "3", "requests.memory": "1Gi", "services": "5"},
        "used": {"pods": "1", "requests.memory": "600Mi"},
        "reported": {"pods": "2", "requests.memory": "600Mi", "services": "1"},
        "statusProblem": None,
        "notCounted": [],
        "charges": [],
    }
    assert (native["kind"], native["namespace"]) == ("ResourceQuota", "default")
    assert native["used"] == {"count/pods": "1", "pods": "0"}
    assert native["reported"] == {}
    assert (blue["kind"], blue["namespace"], blue["used"]) == (
        "ApplicationAwareClusterResourceQuota",
        "",
        {"pods": "1"},
    )
    assert blue["covers"] == ["shop"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shop"], ["shop"]),
        (["-n", "shop"], ["shop", "blue"]),
        (["-n", "default"], ["native"]),
        (["-A"], ["native", "shop", "blue"]),
    ],
    ids=str,
)
def test_quotas_are_chosen_by_name_and_namespace(arguments, expected):
    assert [each["name"] for each in listed(*arguments)] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "bursar: -: no quota called nope\n"),
        (["-n", "elsewhere"], "bursar: -: no quota in namespace elsewhere\n"),
        (["-n", "a", "-A"], "-n is for one namespace, -A for all"),
        (["--context", "x"], "-f reads files; --kubeconfig and --context, a cluster"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_said_in_one_line(arguments, message):
    ran = described(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_workloads_are_not_counted_and_that_is_said():
    ran = described("native", "-o", "json", stdin=MANIFESTS + WORKLOAD)

    assert json.loads(ran.out)[0]["used"] == {"count/pods": "1", "pods": "0"}
    assert ran.err == "bursar: passed over: 1 Deployment\n"


def test_a_status_that_cannot_be_read_is_told():
    broken = MANIFESTS.replace('used: {pods: "2"', "used: {pods: two")

    assert "Status:          cannot be read: status.used[pods]: " in described(stdin=broken).out
    [shop] = listed("shop", stdin=broken)
    assert shop["statusProblem"].startswith("status.used[pods]: ")


def test_many_namespaces_are_counted_where_they_are_not_named():
    more = "\n---\n".join(
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{number:02}, labels: {{team: blue}}}}"
        for number in range(12)
    )
    shown = ", ".join(f"n{number:02}" for number in range(10))

    assert f"Namespaces:  {shown} and 3 more\n" in described(stdin=f"{MANIFESTS}---\n{more}").out
    lonely = MANIFESTS.replace("labels: {team: blue}", "labels: {team: red}")
    assert "Namespaces:  none\n" in described(stdin=lonely).out


def test_without_files_the_cluster_of_kubectl_is_asked(tmp_path: Path):
    missing = tmp_path / "missing"
    ran = run_bursar("describe", "quota", KUBECONFIG=str(missing))
    at_home = run_bursar("describe", "quota", KUBECONFIG="", HOME=str(tmp_path))

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"bursar: no kubeconfig: $KUBECONFIG names {missing}: no such file; "
        "name one with --kubeconfig, or read files with -f\n"
    )
    assert at_home.err == (
        f"bursar: no kubeconfig: $KUBECONFIG is not set, and there is no {tmp_path}/.kube/config; "
        "name one with --kubeconfig, or read files with -f\n"
    )


def test_a_cluster_that_does_not_answer_is_said_in_one_line(tmp_path: Path):
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    ran = run_bursar("describe", "quota", "--kubeconfig", str(config))

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("bursar: http://127.0.0.1:1 (context c): no connection: ")
    assert ran.err.count("\n") == 1
