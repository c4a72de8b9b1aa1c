"""The dashboard: its queries parse, name what exists, and find something."""

import json

import pytest

from bursar.adapters.telemetry.catalogue.index import SECTIONS
from bursar.app.install.grafana.dashboard import LOAD_LABEL, dashboard, dashboard_documents
from bursar.app.install.grafana.panels import ROWS
from support.metrics.every_metric import (
    agent_text,
    controller_text,
    extender_text,
    operator_text,
    webhook_text,
)
from support.metrics.prometheus import AT_CONTROLLER, AT_WEBHOOK, Scrapes, target
from support.metrics.promql import LISTED, metrics_in, unknown_names

MINUTES = 6
"""Longer than the ranges of the queries."""
QUERIES = [
    pytest.param(query, id=f"{panel.title}: {query.legend}")
    for row in ROWS
    for panel in row.panels
    for query in panel.queries
]


@pytest.fixture(scope="module")
def scrapes():
    """What a Prometheus has read of all processes."""
    found = Scrapes()
    of_operator, of_extender = operator_text(), extender_text()
    for _ in range(MINUTES):
        found.take(controller_text(), AT_CONTROLLER)
        found.take(webhook_text(), AT_WEBHOOK)
        found.take(agent_text(), target("bursar-agent"))
        found.take(of_operator, target("aaq-operator"))
        found.take(of_extender, target("bursar-extender"))
        found.pass_minute()
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_metrics_and_labels_that_exist(query):
    assert metrics_in(query.expression)
    assert unknown_names(query.expression, query.legend) == []


@pytest.mark.parametrize(
    ("expression", "legend", "unknown"),
    [
        ("sum(bursar_waiting)", "", ["bursar_waiting"]),
        ("sum by (why) (bursar_waiting_pods)", "", ["why"]),
        ("bursar_waiting_pods{why='x'}", "", ["bursar_waiting_pods: why"]),
        ("bursar_waiting_pods", "{{why}}", ["why"]),
    ],
)
def test_names_that_do_not_exist_are_found(expression, legend, unknown):
    assert unknown_names(expression, legend) == unknown


def test_each_query_finds_something(promtool, scrapes):
    """As an alert that fires if the query has a result."""
    queries = [each.values[0].expression for each in QUERIES]
    rules = [
        {"alert": f"Query{number}", "expr": f"count({query}) > 0"}
        for number, query in enumerate(queries)
    ]
    expected = {rule["alert"]: [{"exp_labels": {}}] for rule in rules}

    assert promtool.test([{"name": "panels", "rules": rules}], scrapes, expected) == ""


def test_every_group_of_metrics_is_shown():
    shown = {name for each in QUERIES for name in metrics_in(each.values[0].expression)}
    listed = {LISTED[name].name for name in shown}
    missing = [each.name for each in SECTIONS if not listed & {one.name for one in each.metrics}]

    assert missing == []


# ------------------------------------------------------------------ Grafana's JSON model


def test_the_config_map_has_the_dashboard_and_the_label_by_which_it_is_loaded():
    [found] = dashboard_documents("team")

    assert (found["kind"], found["metadata"]["namespace"]) == ("ConfigMap", "team")
    assert found["metadata"]["labels"][LOAD_LABEL] == "1"
    [text] = found["data"].values()
    assert json.loads(text) == dashboard()


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    panels = dashboard()["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)


def test_a_panel_reads_the_data_source_that_is_chosen():
    doc = dashboard()
    names = [each["name"] for each in doc["templating"]["list"]]
    drawn = [panel for panel in doc["panels"] if panel["type"] != "row"]

    assert names == ["datasource"]
    for panel in drawn:
        assert panel["description"]
        assert {each["datasource"]["uid"] for each in panel["targets"]} == {"${datasource}"}
        references = [each["refId"] for each in panel["targets"]]
        assert references == sorted(set(references))
