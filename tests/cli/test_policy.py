import json

import pytest

from assets import ROOT
from support.processes.command_line import run_bursar

EXAMPLES = ROOT / "examples"
SATURDAY = ("--at", "2026-11-14T12:00:00Z")
MONDAY = ("--at", "2026-11-16T12:00:00")

POLICY = """
apiVersion: bursar.io/v1alpha1
kind: CountingPolicy
metadata: {name: p}
spec: {match: "object.metadata.namespace == 'default'", charges: {x: "%s"}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {size: "3"}}
spec: {containers: [{name: a}]}
"""
NATIVELY = "counted natively"


def check(*arguments, stdin=""):
    return run_bursar("policy", "check", *arguments, stdin=stdin.encode())


def test_charges_of_the_examples_are_shown():
    ran = check("-f", str(EXAMPLES / "policies"), "-o", "json", *SATURDAY)
    assert ran.code == 0, ran.err
    charges = {each["pod"]: each["charges"] for each in json.loads(ran.out)}
    natively = [each["policy"] for each in json.loads(ran.out) if each["charges"] == NATIVELY]
    assert natively
    assert set(natively) == {None}
    assert charges["ml/train"].startswith("requests.nvidia.com/gpu 4")
    assert charges["shop/web"] == "counted natively"
    ran = check("-f", str(EXAMPLES / "policies"), *MONDAY)
    assert "requests.nvidia.com/gpu 2" in ran.out


def test_policies_without_pods_are_only_checked():
    ran = check("-f", str(EXAMPLES / "policies" / "notebooks.yaml"))
    assert (ran.code, ran.out) == (0, "valid: notebooks\n")


def test_pod_without_a_namespace_is_in_the_default_one():
    ran = check("-f", "-", stdin=POLICY % "int(object.metadata.labels.size)")
    assert "p        default     one   x 3" in ran.out


def test_pod_that_would_wait_is_shown_with_the_reason():
    ran = check("-f", "-", stdin=POLICY % "object.metadata.labels.m")
    assert "waits: p: x: object.metadata.labels.m: no such key: m" in ran.out


def test_problem_is_shown_with_its_place():
    ran = check("-f", str(EXAMPLES / "policies-broken"))
    assert ran.code == 1
    assert 'typing-error: spec.charges["instances/notebook"]: 1:21: ' in ran.err
    assert ran.err.endswith(" | ....................^\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (("-f", str(EXAMPLES / "frontend.yaml")), "", "no CountingPolicy"),
        (("-f", "-"), "{", "stdin"),
        (("-f", "-"), POLICY.replace('"%s"', "[1]"), "charges"),
        (("-f", "-"), POLICY.replace("{match", "{Mode: Shadow, match"), "field: spec.Mode"),
        (
            ("-f", "-"),
            POLICY.replace("{match", "{variables: [{name: a, expr: b}], match"),
            "field: spec.variables[0].expr",
        ),
        (("-f", "-", "--at", "noon"), POLICY % "1", "--at"),
    ],
)
def test_bad_input_is_refused(arguments, stdin, words):
    ran = check(*arguments, stdin=stdin)
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
