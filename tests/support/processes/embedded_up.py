"""Runs of `bursar up` that end by themselves, and the state in which they end."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from support.processes.command_line import run_bursar

FULL_NODE = """
apiVersion: v1
kind: Node
metadata: {name: only}
status: {capacity: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: fills-it, namespace: somewhere}
spec:
  containers:
  - {name: c, image: i, resources: {requests: {cpu: 950m}}}
"""
"""A node, and a pod that fills it."""


def ended_state(*arguments: str, stdin: bytes = b"", **environment: str) -> dict:
    ran = run_bursar("up", *arguments, "-o", "json", stdin=stdin, **environment)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def grown_state(
    is_grown: Callable[[dict], bool],
    *arguments: str,
    seconds: Sequence[int] = (2, 6, 20, 60),
    **others: Any,
) -> dict:
    """The state in which the cluster ends, after as long as this machine needs to grow it."""
    for each in seconds:
        state = ended_state(*arguments, "--for", f"{each}s", **others)
        if is_grown(state):
            break
    return state
