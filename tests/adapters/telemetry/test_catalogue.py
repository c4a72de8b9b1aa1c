"""The list of metrics: it equals what is printed, and the page of the documentation."""

import re

import pytest

import generate_metrics_page
from bursar.adapters.telemetry.catalogue.index import METRICS, SECTIONS
from bursar.adapters.telemetry.catalogue.metric import Kind, Process, metric
from support.metrics.every_metric import (
    agent_text,
    controller_text,
    extender_text,
    operator_text,
    webhook_text,
)
from support.metrics.printed_metrics import differences, families_of

PAGE = generate_metrics_page.PAGE.read_text()


TEXTS = {
    Process.CONTROLLER: lambda: controller_text(samples_max=4),
    Process.WEBHOOK: lambda: webhook_text(samples_max=4),
    Process.AGENT: agent_text,
    Process.OPERATOR: operator_text,
    Process.EXTENDER: extender_text,
}


@pytest.mark.parametrize("process", Process, ids=lambda each: each.value)
def test_a_process_prints_what_is_listed_for_it_and_nothing_else(process):
    text = TEXTS[process]()
    listed = {each.name for each in METRICS.values() if process in each.processes}
    if process in {Process.AGENT, Process.OPERATOR, Process.EXTENDER}:
        listed -= {"bursar_metrics_omitted_samples"}  # No label of it has very many values.

    assert differences(text, process) == []
    assert families_of(text) == listed


def test_a_metric_that_is_not_listed_is_found():
    text = '# TYPE bursar_a gauge\nbursar_a 1\nbursar_waiting_pods{why="x"} 2\nbursar_leader 1\n'

    assert differences(text, Process.AGENT) == [
        "bursar_a is a gauge, and not listed as one",
        "bursar_a is not listed",
        "bursar_leader is not listed for agent",
        "bursar_waiting_pods has the labels ['why']",
    ]


# ------------------------------------------------------------------ names


def test_names_follow_the_rules_of_prometheus():
    for each in METRICS.values():
        assert re.fullmatch(r"[a-z][a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind is Kind.COUNTER), each.name
        assert each.help.endswith("."), each.name
        assert all(re.fullmatch(r"[a-z_]+", label) for label in each.labels), each.name


def test_no_name_is_listed_twice():
    assert len(METRICS) == sum(len(section.metrics) for section in SECTIONS)


@pytest.mark.parametrize(
    ("name", "kind", "unit"),
    [
        ("a_total", Kind.COUNTER, "count"),
        ("a_seconds_total", Kind.COUNTER, "seconds"),
        ("a_bytes", Kind.GAUGE, "bytes"),
        ("a", Kind.GAUGE, "count"),
    ],
)
def test_type_and_unit_follow_from_the_name(name, kind, unit):
    made = metric(name, "A number.")

    assert (made.kind, made.unit) == (kind, unit)


# ------------------------------------------------------------------ the page


def test_the_tables_of_the_page_are_those_of_the_list():
    assert generate_metrics_page.written(PAGE) == PAGE, "run `make docs`"


def test_the_page_has_every_section_once():
    found = re.findall(r"^<!-- metrics: ([a-z-]+) -->$", PAGE, re.MULTILINE)

    assert sorted(found) == sorted(section.name for section in SECTIONS)


def test_a_page_that_differs_is_found():
    wrong = PAGE.replace("| `bursar_leader` | gauge |", "| `bursar_leader` | counter |")

    assert wrong != PAGE
    assert generate_metrics_page.written(wrong) == PAGE
