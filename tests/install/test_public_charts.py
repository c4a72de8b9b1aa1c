"""Charts as people publish them, rendered by the real helm, through every verb that reads files.

The charts in `tests/charts` have what charts commonly have: Deployments with a Service, an Ingress,
a HorizontalPodAutoscaler and a PodDisruptionBudget; StatefulSets with volumes; CronJobs; operators
with their kinds, rights and webhooks; a DaemonSet beside LimitRanges and quotas.
"""

import json
from pathlib import Path

import pytest

from support.chart.helm import try_helm
from support.processes.command_line import run_bursar

pytestmark = pytest.mark.integration

CHARTS = Path(__file__).parents[1] / "charts"
NAMES = ["batch", "database", "operator", "umbrella", "web"]
VERBS = [
    ["describe", "pod"],
    ["top", "pods"],
    ["top", "namespaces"],
    ["top", "quotas"],
    ["queue"],
    ["dump"],
    ["up", "--for", "3s"],
]
"""Verbs that take what helm renders from standard input, whatever is in it."""


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    ran = {
        name: try_helm("template", "shop", str(CHARTS / name), "-n", "shop", "--include-crds")
        for name in NAMES
    }
    assert [each.err for each in ran.values() if each.code] == []
    return {name: each.out for name, each in ran.items()}


def test_all_charts_are_tried():
    assert sorted(path.name for path in CHARTS.iterdir()) == NAMES


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("name", NAMES)
def test_a_rendered_chart_goes_through(rendered, name, verb):
    ran = run_bursar(*verb, "-f", "-", stdin=rendered[name].encode())

    assert ran.code == 0, ran.err
    assert all(line.startswith("bursar") for line in ran.err.splitlines())


def totals(text: str, name: str) -> dict[str, dict[str, str]]:
    """What the pods of a workload ask for together, by what decides their number."""
    ran = run_bursar("describe", "pod", name, "-f", "-", "-o", "json", stdin=text.encode())
    (pod,) = json.loads(ran.out)
    return {each["meaning"]: each["amounts"] for each in pod["together"]["totals"]}


def test_the_pods_of_a_chart_are_added_up(rendered):
    web = totals(rendered["web"], "shop-web")
    database = totals(rendered["database"], "shop-database")
    batch = totals(rendered["batch"], "shop-invoices")

    assert {meaning: amounts["pods"] for meaning, amounts in web.items()} == {
        "replicas": "3",
        "HPA minimum": "2",
        "HPA maximum": "10",
    }
    assert web["HPA maximum"]["requests.cpu"] == "10"
    assert database["replicas"] == {
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "3",
        "fast.storageclass.storage.k8s.io/requests.storage": "60Gi",
        "limits.cpu": "3150m",
        "limits.memory": "6240Mi",
        "persistentvolumeclaims": "6",
        "pods": "3",
        "requests.cpu": "3150m",
        "requests.memory": "6240Mi",
        "requests.storage": "75Gi",
    }
    assert batch["in one run"]["requests.memory"] == "16Gi"


def test_a_template_that_is_not_rendered_is_recognized():
    path = CHARTS / "web" / "templates" / "deployment.yaml"
    ran = run_bursar("describe", "pod", "-f", str(path))

    assert (ran.code, ran.out) == (2, "")
    assert "looks like a Helm template" in ran.err
    assert len(ran.err.splitlines()) == 1
