"""Events on a real API server, as kubectl shows them."""

import asyncio
import contextlib
import http.client
import json
import uuid
from collections.abc import AsyncIterator
from enum import Enum

from bursar.adapters.clock import RealClock
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import Drop, EventRecorder
from controlplane import ControlPlane
from support.builders.manifests import pod_manifest
from support.cluster.access import a_client, access_of
from support.processes.kubectl import kubectl
from support.until import until


class Reason(Enum):
    HELD = "QuotaExceeded"
    RELEASED = "Released"


@contextlib.asynccontextmanager
async def recording(plane: ControlPlane) -> AsyncIterator[EventRecorder[Reason]]:
    """A recorder at work; when the block is left, everything is written."""
    async with a_client(access_of(plane)) as client:
        recorder = EventRecorder(
            client,
            RealClock(),
            reasons=Reason,
            component="bursar.io/controller",
            instance="bursar-0",
        )
        worker = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)  # A task that is cancelled before it has begun never begins.
        try:
            yield recorder
        finally:
            worker.cancel()
            await asyncio.wait((worker,))


def a_namespace(plane: ControlPlane) -> str:
    name = f"events-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    # Pods need it, and the controller that makes it takes seconds after it was started.
    account = {"metadata": {"name": "default"}}
    plane.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    return name


def create_pod(plane: ControlPlane, namespace: str) -> ObjectReference:
    """A pod that no scheduler and no kubelet will say anything about."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    status, body = plane.request("POST", path, pod_manifest("web", "bursar.io/quota"))
    assert status == http.client.CREATED, body
    made = json.loads(body)
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=namespace,
        name="web",
        uid=made["metadata"]["uid"],
    )


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


async def test_kubectl_shows_events_with_counts(control_plane):
    namespace = a_namespace(control_plane)
    pod = create_pod(control_plane, namespace)
    async with recording(control_plane) as recorder:
        for _ in range(5):
            recorder.record(
                pod, Reason.HELD, "short of 2 cpu", action="Hold", type=EventType.WARNING
            )
            await asyncio.sleep(0.05)
        recorder.record(pod, Reason.RELEASED, "there is room", action="Release")
    described = kubectl(control_plane, "describe", "pod", "web", "-n", namespace)
    listed = rows(kubectl(control_plane, "get", "events", "-n", namespace, "-o", "wide"))
    shown = [line.split() for line in described.partition("Events:")[2].splitlines()[3:]]
    held = next(line for line in shown if "QuotaExceeded" in line)

    assert recorder.dropped == {}
    assert held[0] == "Warning"
    assert "(x5" in held
    assert held[-3:] == ["of", "2", "cpu"]
    assert "bursar.io/controller" in held
    assert any(line[:2] == ["Normal", "Released"] for line in shown)
    counted = {line[2]: line for line in listed}
    assert "pod/web" in counted["QuotaExceeded"]
    assert "5" in counted["QuotaExceeded"]
    assert "1" in counted["Released"]


async def test_series_grows_on_the_server_while_it_happens(control_plane):
    namespace = a_namespace(control_plane)
    pod = create_pod(control_plane, namespace)
    async with recording(control_plane) as recorder:
        recorder.record(pod, Reason.HELD, "short of 2 cpu", action="Hold")
        await until(lambda: events(control_plane, namespace), "the first event is written")
        recorder.record(pod, Reason.HELD, "short of 2 cpu", action="Hold")
        before = events(control_plane, namespace)
    after = events(control_plane, namespace)

    assert [event.get("series") for event in before] == [None]
    assert [event["series"]["count"] for event in after] == [2]
    assert after[0]["metadata"]["uid"] == before[0]["metadata"]["uid"]


def events(plane: ControlPlane, namespace: str) -> list[dict]:
    _, body = plane.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return json.loads(body)["items"]


async def test_longest_texts_and_strangest_names_are_taken(control_plane):
    namespace = a_namespace(control_plane)
    pod = create_pod(control_plane, namespace)
    role = ObjectReference(
        api_version="rbac.authorization.k8s.io/v1",
        kind="ClusterRole",
        name=f"system:{namespace}",
        uid=str(uuid.uuid4()),
    )
    async with recording(control_plane) as recorder:
        recorder.record(pod, Reason.HELD, "語" * 5000, action="A" * 500, related=role)
        recorder.record(role, Reason.HELD, "about a cluster-wide object", action="Hold")
        for number in range(30):
            recorder.record(pod, Reason.RELEASED, f"room for {number}", action="Release")
    about_pod = events(control_plane, namespace)
    about_role = [
        event
        for event in events(control_plane, "default")
        if event["regarding"].get("uid") == role.uid
    ]

    assert recorder.dropped == {}
    assert max(len(event["note"].encode()) for event in about_pod) == 1023
    assert len(about_pod) == 1 + 10 + 1
    assert [event["series"]["count"] for event in about_pod if "series" in event] == [20]
    assert [event["note"] for event in about_role] == ["about a cluster-wide object"]


async def test_namespace_that_is_gone_drops_the_event_and_nothing_else(control_plane):
    namespace = a_namespace(control_plane)
    pod = create_pod(control_plane, namespace)
    nowhere = ObjectReference(
        api_version="v1", kind="Pod", namespace=f"{namespace}-gone", name="web"
    )
    async with recording(control_plane) as recorder:
        recorder.record(nowhere, Reason.HELD, "no such namespace", action="Hold")
        recorder.record(pod, Reason.HELD, "short of 2 cpu", action="Hold")

    assert recorder.dropped == {Drop.REFUSED: 1}
    assert len(events(control_plane, namespace)) == 1
