"""`bursar dump` with files: the same answers from what it writes."""

import json
from pathlib import Path

import pytest
import yaml

from support.processes.command_line import run_bursar

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHERS = """
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {a: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec: {containers: [{name: c, image: i, env: [{name: A, value: hunter2}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {a: b}}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1.10}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
"""


def dumped(*arguments: str) -> list[str]:
    ran = run_bursar("dump", "-f", "-", "-o", "json", *arguments, stdin=OTHERS.encode())
    assert ran.code == 0, ran.err
    assert "hunter2" not in ran.out
    found = json.loads(ran.out)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    return [f"{each['kind']}/{each['metadata']['name']}" for each in found["items"]]


@pytest.mark.parametrize(
    ("verb", "files"),
    [
        (["describe", "node"], "node-pool.yaml"),
        (["describe", "pod"], "."),
        (["describe", "quota"], "queue"),
        (["queue"], "queue"),
    ],
    ids=str,
)
def test_a_verb_gives_the_same_answer_from_the_dump(verb, files):
    source = str(EXAMPLES / files)
    dump = run_bursar("dump", "-f", source)
    directly = run_bursar(*verb, "-f", source, "-o", "json")
    from_dump = run_bursar(*verb, "-f", "-", "-o", "json", stdin=dump.out.encode())

    assert (dump.code, from_dump.out) == (0, directly.out)


def test_kinds_namespaces_and_labels_choose_what_is_written():
    assert dumped() == ["Pod/a", "Pod/b", "Node/n1"]
    assert dumped("--for", "queue") == ["Pod/a", "Pod/b"]
    assert dumped("-n", "default") == ["Pod/b", "Node/n1"]
    assert dumped("-l", "a=b") == ["Pod/b"]
    assert dumped("--anonymize") == ["Pod/pod-1", "Pod/pod-2", "Node/node-1"]


def test_yaml_is_the_default_and_says_the_same():
    ran = run_bursar("dump", "-f", "-", stdin=OTHERS.encode())

    assert [each["metadata"]["name"] for each in yaml.safe_load(ran.out)["items"]] == [
        "a",
        "b",
        "n1",
    ]


def test_nothing_to_write_is_said():
    ran = run_bursar("dump", "-f", "-", "-n", "elsewhere", "--for", "queue", stdin=OTHERS.encode())

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("bursar: -: no object that Bursar reads\n")
