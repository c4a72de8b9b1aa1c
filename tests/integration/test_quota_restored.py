"""etcd is restored from a backup while a controller runs: pods are back that it saw deleted."""

import json
import shutil
from collections.abc import Iterator

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, Key, Query
from controlplane import ControlPlane
from support.cluster.control_plane import started_control_plane
from support.quota.controller_processes import (
    SHORT_TERMS,
    Administrator,
    Controllers,
    administering,
    install,
)
from support.until import until

ROOM = 4
MORE_ROOM = 6
WAITING = 5
PATIENCE_LONG = 400
"""The controller has to be elected again, by a Lease that was restored as well."""


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    """A control plane of this test alone, because its past is rewritten."""
    with started_control_plane(is_bare=True) as plane:
        install(plane)
        yield plane


class Etcd:
    """The database of a control plane: its state can be kept, and put back."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._data, self._kept = plane.folder / "etcd", plane.folder / "etcd-kept"

    def keep(self) -> None:
        self._stop()
        shutil.copytree(self._data, self._kept)
        self._start()

    def restore(self) -> None:
        self._stop()
        shutil.rmtree(self._data)
        shutil.copytree(self._kept, self._data)
        self._start()

    def _stop(self) -> None:
        for part in (self._plane.apiserver, self._plane.etcd):
            part.stop()

    def _start(self) -> None:
        for part in (self._plane.etcd, self._plane.apiserver):
            part.start()
            part.wait_ready()


async def released_pods(people: Administrator, namespace: str) -> set[str]:
    page = await people.client.list(PODS, Query(namespace=namespace))
    pods = [json.loads(body) for body in page.items]
    return {
        pod["metadata"]["name"]
        for pod in pods
        if not pod["spec"].get("schedulingGates") and "deletionTimestamp" not in pod["metadata"]
    }


async def test_pods_that_a_backup_brings_back_are_charged_before_others_are_released(
    control_plane, tmp_path
):
    etcd = Etcd(control_plane)
    async with administering(control_plane) as people:
        namespace = await people.namespace("restored")
        quota = Key(namespace, "quota")
        await people.quota(quota, {"pods": str(ROOM)})

        async def released(number: int) -> set[str] | None:
            try:
                names = await released_pods(people, namespace)
            except ClusterError:  # The API server has just been restarted.
                return None
            assert len(names) <= number
            return names if len(names) == number else None

        with Controllers(control_plane, tmp_path, *SHORT_TERMS) as controllers:
            await people.pods(namespace, ROOM)
            first = await until(lambda: released(ROOM), "the first pods run")
            await people.pods(namespace, WAITING)
            await people.uses(quota, pods=str(ROOM))
            etcd.keep()

            for name in first:
                await people.client.delete(PODS, Key(namespace, name), grace_seconds=0)
            second = await until(lambda: released(ROOM), "others run in their place")
            assert not first & second
            await people.uses(quota, pods=str(ROOM))
            etcd.restore()

            assert await until(lambda: released(ROOM), "the API server is back") == first
            await people.limit(quota, pods=str(MORE_ROOM))
            both = await until(
                lambda: released(MORE_ROOM),
                lambda: f"two more run\n{controllers.logs()}",
                PATIENCE_LONG,
            )
            assert first < both
            await people.settle()
            await people.uses(quota, pods=str(MORE_ROOM))
            assert await released(MORE_ROOM) == both
