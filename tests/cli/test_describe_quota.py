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
Resource     Used  Hard  %    Reported
--------     ----  ----  -    --------
count/pods   1     9     11%  -
pods         0     9     0%   -

Name:            shop
Namespace:       shop
Kind:            ApplicationAwareResourceQuota
Scopes:          PriorityClass NotIn (high, low)
                 NotTerminating
                 PriorityClass DoesNotExist
Resource         Used   Hard  %    Reported
--------         ----   ----  -    --------
pods             1      3     33%  2  <- differs
requests.memory  600Mi  1Gi   58%  600Mi
services         -      5     20%  1
Not gated: shop: the labels of the namespace do not match --namespace-selector,
  so this quota holds no pod there

Name:        blue
Namespaces:  shop
Kind:        ApplicationAwareClusterResourceQuota
Resource     Used  Hard  %    Reported
--------     ----  ----  -    --------
pods         1     9     11%  -
Not gated: shop: the labels of the namespace do not match --namespace-selector,
  so this quota holds no pod there
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
        "percent": {"pods": 33, "requests.memory": 58, "services": 20},
        "overLimit": [],
        "notGated": ["shop"],
        "gatingNotKnown": [],
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
        (["--context", "x"], "-f and -k read files; --kubeconfig and --context, a cluster"),
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
    assert ran.err == "bursar: skipped: 1 Deployment\n"


def test_metrics_of_the_same_cluster_are_not_mentioned():
    """`bursar top` reads them, and other commands read the files that are made for it."""
    metrics = "---\napiVersion: metrics.k8s.io/v1beta1\nkind: NodeMetrics\nmetadata: {name: n}\n"
    ran = described("native", stdin=MANIFESTS + metrics)

    assert (ran.code, ran.err) == (0, "")


def test_a_status_that_cannot_be_read_is_told():
    broken = MANIFESTS.replace('used: {pods: "2"', "used: {pods: two")

    assert "Status: cannot be read: status.used[pods]: " in described(stdin=broken).out
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


ODD = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {application-aware-quota/enable-gating: ""}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: native, namespace: shop}
spec: {hard: {cpuu: "1", count/widgets.example.com: "1", requests.memory: 100Mi}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: ours, namespace: shop}
spec: {hard: {memry: 1Gi, requests.memory: "0"}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {memory: 600Mi}}}]}
"""


def test_unknown_names_and_use_over_the_limit_are_marked():
    ran = described(stdin=ODD)

    lines = [line.split() for line in ran.out.splitlines()]
    assert ["cpuu", "-", "1", "-", "-", "<-", "never", "counted"] in lines
    assert ["count/widgets.example.com", "-", "1", "-", "-"] in lines
    assert ["requests.memory", "600Mi", "100Mi", "600%", "-", "<-", "over", "the", "limit"] in lines
    assert ["requests.memory", "600Mi", "0", "-", "-", "<-", "over", "the", "limit"] in lines
    assert "Not counted: memry: no counter charges this name; check its spelling" in ran.out
    assert "Not gated" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    native, ours = listed(stdin=ODD)
    assert (native["overLimit"], ours["overLimit"]) == (["requests.memory"], ["requests.memory"])
    assert [each["resource"] for each in ours["notCounted"]] == ["memry"]


def test_a_namespace_that_is_only_named_may_be_gated_or_not():
    quota = ODD.split("---")[2]

    assert "Gating not known: shop: the Namespace was not read" in described(stdin=quota).out


def test_a_list_has_a_row_for_each_quota():
    ran = described("-o", "wide", "--no-headers", "--sort-by", "-fullest", stdin=ODD)

    assert [line.split()[1:4] for line in ran.out.splitlines()] == [
        ["native", "ResourceQuota", "600%"],
        ["ours", "ApplicationAwareResourceQuota", "-"],
    ]
    csv = described("-o", "csv", "--no-headers", "--sort-by", "-fullest", stdin=ODD)
    quotas = dict.fromkeys(tuple(line.split(",")[1:4]) for line in csv.out.splitlines())
    assert list(quotas) == [
        ("native", "ResourceQuota", "600%"),
        ("ours", "ApplicationAwareResourceQuota", ""),
    ]
    names = described("-o", "name", stdin=ODD).out.splitlines()
    assert names[0] == "resourcequota/native"


def test_csv_has_a_row_for_each_resource(tmp_path: Path) -> None:
    file = tmp_path / "quota.yaml"
    empty = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: empty}\nspec: {hard: {}}\n"
    file.write_text(MANIFESTS + empty)
    ran = run_bursar("describe", "quota", "-f", str(file), "-o", "csv")

    head, *rows = ran.out.splitlines()
    assert head == "NAMESPACE,NAME,KIND,FULLEST,RESOURCE,USED,HARD,PERCENT,REPORTED,REMARKS"
    found = {tuple(row.split(",")[1:5:3]): row.split(",")[5:] for row in rows}
    assert len(found) == len(rows)
    assert found["shop", "services"] == ["", "5", "20%", "1", "not gated"]
    assert found["native", "count/pods"][:3] == ["1", "9", "11%"]
    assert found["empty", ""] == ["", "", "", "", ""]
