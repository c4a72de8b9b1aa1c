"""The tool that runs AAQ's end-to-end tests: what it chooses, and what it makes of their report."""

from pathlib import Path

import pytest

from aaq_e2e import ALONE, Chosen, Outcome, aaq_object, outcomes_of, report_lines, runs


def spec(name, state="passed", *, kind="It", words=""):
    return {
        "ContainerHierarchyTexts": ["Operator"] if kind == "It" else None,
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "State": state,
        "RunTime": 2_000_000_000,
        "Failure": {"Message": words},
    }


def chosen(gate="webhooks", focus="", skip=""):
    return Chosen(gate, focus, skip, Path())


def test_tests_that_were_not_chosen_and_set_up_that_did_well_are_no_outcomes():
    specs = [
        spec("", kind="BeforeSuite"),
        spec("deletes"),
        spec("not chosen", "skipped"),
        spec("wants three nodes", "skipped", words="requires 3 nodes"),
        spec("repairs", "failed", words="Timed out\nafter 60 s"),
    ]

    assert outcomes_of([{"SpecReports": specs}]) == [
        Outcome("Operator deletes", "passed", 2),
        Outcome("Operator wants three nodes", "skipped", 2, "requires 3 nodes"),
        Outcome("Operator repairs", "failed", 2, "Timed out\nafter 60 s"),
    ]


def test_set_up_that_failed_is_an_outcome():
    failed = spec("", "failed", kind="BeforeSuite", words="no AAQ object")

    (outcome,) = outcomes_of([{"SpecReports": [failed]}])

    assert (outcome.name, outcome.state) == ("BeforeSuite", "failed")


def test_the_report_ends_with_what_failed_and_with_numbers():
    outcomes = [
        Outcome("repairs", "failed", 61, "Timed out\n  after 60 s"),
        Outcome("deletes", "passed", 2.4),
        Outcome("places", "skipped", 0, "too few nodes"),
    ]

    assert report_lines(outcomes) == [
        "passed       2 s  deletes",
        "skipped      0 s  places\n    too few nodes",
        "failed      61 s  repairs\n    Timed out after 60 s",
        "1 passed, 1 failed, 1 left out",
    ]


def test_a_test_that_another_one_breaks_gets_a_run_of_its_own():
    assert runs(chosen()) == [("", ALONE), (ALONE, "")]
    assert runs(chosen(focus="Cert rotation")) == [("Cert rotation", ALONE)]
    assert runs(chosen(focus="ALL Operator tests")) == [("ALL Operator tests", ALONE), (ALONE, "")]
    assert runs(chosen(skip="priority class")) == [("", f"priority class|{ALONE}")]


def test_tests_about_the_webhook_are_left_out_where_there_is_none():
    assert runs(chosen("policies")) == [("", "ALL Operator tests|Cert rotation tests")]


@pytest.mark.parametrize(("gate", "selector"), [("webhooks", None), ("policies", {})])
def test_the_object_is_aaqs_own_with_the_chosen_gate(gate, selector):
    body = aaq_object(gate)

    annotations = body["metadata"].get("annotations", {"bursar.io/gate": "webhooks"})
    assert annotations == {"bursar.io/gate": gate}
    assert body["spec"].get("namespaceSelector") == selector
