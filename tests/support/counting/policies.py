"""Policies and pods for tests of counting by policies."""

import json

from bursar.core.counting.kind_state import KindState
from bursar.core.counting.policies import PolicyCounter
from bursar.core.counting.policy import PolicyText
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import read_body
from bursar.wire.model.pod_row import PodRowDecoder
from support.cel.recorded import LANGUAGE

SATURDAY = 1_794_666_600
"""14 November 2026, 14:30 UTC."""


def a_policy(name="p", match="true", charges=None, **more):
    if charges is None and not more.get("is_ignored"):
        charges = {"instances/notebook": "1"}
    return PolicyText(name=name, match=match, charges=charges or {}, **more)


def a_counter(*policies, is_synced=True):
    counter = PolicyCounter(LANGUAGE, keep_body, read_body)
    counter.set_time(SATURDAY)
    for each in policies:
        counter.see_policy(each)
    if is_synced:
        counter.set_state(KindState.SYNCED)
    return counter


def pod_body(name="nb-0", *, namespace="ml", version="1", phase="Pending", spec=None, **metadata):
    requests = {"cpu": "500m", "memory": "1Gi"}
    default = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
    pod = {"metadata": {**meta, **metadata}, "spec": spec or default, "status": {"phase": phase}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}).encode()


def a_row(name="nb-0", *, derive=lambda body: (keep_body(body),), **more):
    return PodRowDecoder(derive).decode(pod_body(name, **more))
