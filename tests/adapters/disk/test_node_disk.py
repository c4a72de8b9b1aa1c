"""The folders of a node's pods, measured in a thread with a budget."""

import os
import threading
import time

import pytest

from bursar.adapters.disk.budgets import Budgets
from bursar.adapters.disk.node_disk import DiskPlaces, NodeDisk
from bursar.adapters.disk.rounds import Rounds
from bursar.adapters.disk.tree import FolderTree
from bursar.app.storage.ports import DiskError
from bursar.core.storage.pod import EmptyDirVolume, StoragePod
from bursar.core.storage.usage import Measure, Way
from support.nodes.storage import a_storage_pod
from support.until import PATIENCE_SECONDS


@pytest.fixture
def places(tmp_path):
    (tmp_path / "kubelet/pods").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    return DiskPlaces(kubelet=str(tmp_path / "kubelet"), logs=str(tmp_path / "logs"))


def written(*steps, kib=8):
    path = os.path.join(*steps)  # noqa: PTH118 - steps are texts
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(b"x" * kib * 1024)


def volume(places, pod, plugin, name):
    return f"{places.kubelet}/pods/{pod.uid}/volumes/kubernetes.io~{plugin}/{name}"


async def test_a_pod_has_volumes_logs_and_other_files(places):
    pod = a_storage_pod(volumes=["cache", "not-mounted"])
    written(volume(places, pod, "empty-dir", "cache"), "data", kib=64)
    written(volume(places, pod, "configmap", "settings"), "..data", "key")
    written(places.kubelet, "pods", pod.uid, "etc-hosts", kib=4)
    logs = f"{places.logs}/shop_web_{pod.uid}"
    written(logs, "app", "0.log", kib=16)
    written(logs, "app", "0.log.1", kib=16)
    written(logs, "app", "folder", "ignored")
    written(logs, "pod.log", kib=4)
    async with NodeDisk(places) as disk:
        found = (await disk.measure([pod]))[pod.uid]
        assert set(found.volumes) == {"cache", "settings"}
        assert found.volumes["cache"].used == 64 * 1024 + 4096
        assert found.volumes["cache"].is_complete
        assert found.logs == {"app": 32 * 1024}
        assert found.other == 8 * 1024
        assert disk.filesystem().capacity > 0
        counts = disk.counts
        assert (counts.rounds, counts.folders, counts.unfinished) == (1, 3, 0)
        assert await disk.measure([]) == {}
        assert disk.counts.folders == 0
        assert disk.counts.looks == counts.looks


async def test_memory_volumes_and_pods_that_ended_are_left_out(places):
    volumes = (EmptyDirVolume(name="shm", is_on_disk=False),)
    in_memory = StoragePod(namespace="shop", name="memory", uid="uid-memory", volumes=volumes)
    ended = a_storage_pod("ended", volumes=["cache"], is_ended=True)
    written(volume(places, in_memory, "empty-dir", "shm"), "data")
    written(volume(places, ended, "empty-dir", "cache"), "data")
    async with NodeDisk(places) as disk:
        found = await disk.measure([in_memory, ended])
    assert {uid: dict(each.volumes) for uid, each in found.items()} == {"uid-memory": {}}


@pytest.mark.parametrize("uid", ["../../etc", "", ".", "a/b"])
async def test_a_uid_that_is_a_path_is_not_followed(places, uid):
    pod = StoragePod(namespace="shop", name="web", uid=uid)
    async with NodeDisk(places) as disk:
        assert await disk.measure([pod]) == {}


async def test_without_the_kubelets_folder_there_is_an_error(tmp_path):
    async with NodeDisk(DiskPlaces(kubelet=str(tmp_path), logs=str(tmp_path))) as disk:
        with pytest.raises(DiskError, match="No such file"):
            await disk.measure([])
        with pytest.raises(DiskError, match="No such file"):
            disk.filesystem()


async def test_a_volume_that_quotas_count_is_not_scanned(places):
    pod = a_storage_pod(volumes=["cache"])
    written(volume(places, pod, "empty-dir", "cache"), "data")

    class Quotas:
        forgotten = 0

        def measure(self, path, _):
            return Measure(used=5, way=Way.QUOTA) if path.endswith("cache") else None

        def forget_gone(self):
            self.forgotten += 1

    quotas = Quotas()
    async with NodeDisk(places, counter=quotas) as disk:
        found = (await disk.measure([pod]))[pod.uid]
        assert found.volumes["cache"].way is Way.QUOTA
        assert disk.counts.folders == 0
        assert quotas.forgotten == 0
        await disk.measure([])
        assert quotas.forgotten == 1


# ------------------------------------------------------------------ fairness and budgets


class EndlessTree(FolderTree):
    """The volume of a tenant that makes files faster than they are scanned."""

    def scan(self, _):
        while True:
            self.looks += 1
            yield


def test_an_endless_volume_does_not_keep_others_from_being_scanned(tmp_path):
    trees = {("hostile", str(number)): EndlessTree("") for number in range(5)}
    for number in range(50):
        (tmp_path / str(number)).mkdir()
        trees[f"pod-{number}", "cache"] = FolderTree(str(tmp_path / str(number)))
    every = Rounds(threading.Event())
    quiet = [tree for (pod, _), tree in trees.items() if pod != "hostile"]
    until_s = time.monotonic() + PATIENCE_SECONDS
    while not all(tree.is_scanned for tree in quiet):
        assert time.monotonic() < until_s
        assert every.run(trees, 1, time.monotonic() + 0.5) == {}
    assert every.unfinished == 5
    assert all(trees["hostile", str(number)].looks for number in range(5))
    every.close_all()
    assert every.unfinished == 0


def test_a_round_keeps_a_bounded_number_of_scans_open():
    trees = {(str(number), "cache"): EndlessTree("") for number in range(9)}
    every = Rounds(threading.Event(), kept_max=3)
    every.run(trees, 1, time.monotonic() + 0.2)
    assert every.unfinished == 3
    every.run({}, 2, time.monotonic() + 1)
    assert every.unfinished == 0


class CountedPauses(threading.Event):
    """Ends the round after some pauses, and does not wait for any."""

    def __init__(self, count):
        super().__init__()
        self.pauses_s = []
        self._count = count

    def wait(self, timeout=None):
        self.pauses_s.append(timeout)
        if len(self.pauses_s) == self._count:
            self.set()
        return self.is_set()


def test_a_round_takes_a_quarter_of_a_core():
    pauses = CountedPauses(20)
    every = Rounds(pauses)
    every.run({("hostile", "cache"): EndlessTree("")}, 1, time.monotonic() + PATIENCE_SECONDS)

    assert len(pauses.pauses_s) == 20
    assert sum(pauses.pauses_s) == pytest.approx(3 * every.seconds)


def test_an_ended_process_ends_the_round():
    stop = threading.Event()
    stop.set()
    assert Rounds(stop).run({("a", "b"): EndlessTree("")}, 1, time.monotonic() + 1e9) == {}


async def test_folders_of_all_volumes_together_are_bounded(places):
    pods = [a_storage_pod(f"p{number}", volumes=["cache"]) for number in range(3)]
    for pod in pods:
        for number in range(6):
            written(volume(places, pod, "empty-dir", "cache"), f"d{number}", "f")
    async with NodeDisk(places, budgets=Budgets(folders=10)) as disk:
        found = await disk.measure(pods)
        assert disk.counts.folders <= 12
    assert {each.volumes["cache"].is_complete for each in found.values()} == {True, False}
