"""The page of upstream's tests of pod resources names every row once, and tests that exist."""

import re

import pytest

from support.named_tests import TESTS, all_tests, is_there, named_in

PAGE = TESTS.parent / "docs" / "reference" / "pod-resources-scenarios.md"
CHECKS = 27
CASES = {
    "Koordinator fill": ["GPU and VF", "two pods", "id only", "absent pod", "other key"],
    "Koordinator stub": ["token", "configz", "configz 1.28", "constructor"],
    "Koordinator stub from config": ["read-only", "no type", "HTTPS"],
    "Koordinator pods informer": ["sync", "error", "loop"],
    "Koordinator annotation codec": ["none", "malformed", "gpu", "gpu with id", "writing"],
    "Koordinator system config": ["daemon set", "host", "flags", "detection"],
    "Koordinator scheduler and hooks": ["PreBind", "GPU hook"],
    "Kubelet List": [
        "no pods",
        "without devices",
        "with devices",
        "with dynamic resources",
        "with both",
        "none active",
        "all active",
        "some terminated",
        "plain init container",
        "restartable init container",
    ],
    "Kubelet Allocatable": [
        "nothing",
        "CPUs only",
        "memory only",
        "devices and CPUs",
        "devices without CPUs",
    ],
    "Kubelet Get": ["missing pod", "without devices", "with devices", "init containers"],
    "Kubelet v1alpha1": ["no pods", "without devices", "with devices"],
    "Kubelet client": ["both versions"],
    "Kubelet on a node": [
        "more and fewer pods",
        "CPUs",
        "terminated pod",
        "only running pods",
        "devices without topology",
        "metrics",
        "throttling",
    ],
    "Multus client": [
        "builds",
        "missing socket",
        "two IDs",
        "garbage socket",
        "empty name",
        "empty namespace",
        "unknown pod",
    ],
    "dcgm-exporter table": [
        "uid, a UUID",
        "uid, a MIG ID",
        "uid, a MIG ID for the UUID in it",
        "device-name, a MIG ID",
        "device-name, an instance",
        "device-name, no number",
        "uid, no number",
        "uid, a MIG resource",
        "uid, a named resource",
        "device-name, in instance 0",
        "device-name, in instance 1",
        "uid, a UUID, virtual",
        "uid, a MIG ID, virtual",
        "uid, a MIG ID for the UUID in it, virtual",
        "device-name, a MIG ID, virtual",
        "device-name, an instance, virtual",
        "device-name, no number, virtual",
        "uid, no number, virtual",
        "uid, a MIG resource, virtual",
        "uid, a named resource, virtual",
        "device-name, a share of an instance, virtual",
        "device-name, a share of a GPU, virtual",
        "uid, a share of a UUID, virtual",
        "uid, a share of a MIG ID, virtual",
        "device-name, two shares of an instance, virtual",
        "device-name, two shares of a GPU, virtual",
        "uid, two shares of a UUID, virtual",
        "uid, two shares of a MIG ID, virtual",
        "uid, nobody, virtual",
        "uid, nobody",
    ],
    "dcgm-exporter share": [
        "a device name, shared",
        "a device name",
        "an instance, shared",
        "an instance",
        "a UUID, shared",
        "a UUID",
        "a MIG ID, shared",
        "a MIG ID",
    ],
    "dcgm-exporter stripped share": [
        "MIG and number",
        "MIG",
        "GPU",
        "and number",
        "empty",
        "MIG and no number",
    ],
    "dcgm-exporter mapping": [
        "labels",
        "UID",
        "labels and UID",
        "informer lookup",
        "names of labels",
        "start",
        "claim",
        "claim, updated",
        "claim, missing",
        "claim, MIG",
        "claim, MIG unresolved",
        "unused GPUs",
        "unused GPUs, by process",
        "unused MIG",
        "unused MIG, by process",
        "MIG end to end",
        "PID value maps",
        "idle zeros",
        "per-process metrics",
        "resources",
        "missing socket",
        "failing List",
        "long answers",
        "path of the socket",
        "connection",
    ],
}
ROWS = [
    *(f"check {number}" for number in range(1, CHECKS + 1)),
    *(f"{group}: {case}" for group, cases in CASES.items() for case in cases),
]
LINE = re.compile(r"^\| (?!row |-)([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
BEARER = re.compile(r"^test_check_(\d\d)_")
REASON = "out of scope: "
PROOFS = {row: proof for row, _, proof in LINE.findall(PAGE.read_text())}


def test_every_row_is_there_once_and_in_order():
    assert [row for row, *_ in LINE.findall(PAGE.read_text())] == ROWS


@pytest.mark.parametrize("row", PROOFS)
def test_a_row_is_proven_or_explained(row):
    named = named_in(PROOFS[row])

    assert [each for each in named if not is_there(*each)] == []
    assert bool(named) != PROOFS[row].startswith(REASON)
    assert len(named) == PROOFS[row].count("::")


def test_every_check_has_a_test_with_its_number_that_is_listed():
    listed = {
        (row, path, name) for row, proof in PROOFS.items() for path, name, _ in named_in(proof)
    }
    bearers = {
        (f"check {int(found.group(1))}", path, name)
        for path, name in all_tests()
        if (found := BEARER.match(name))
    }

    assert bearers - listed == set()
    assert {row for row, *_ in bearers} == {row for row in ROWS if row.startswith("check")}
