"""The rounds of the accounting: partial failures, and what is logged."""

import logging

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.log import Log
from bursar.app.storage.accounting import StorageAccounting
from bursar.app.storage.ports import DiskCounts, DiskError, SummaryError
from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.summary import Summary
from support.nodes.storage import a_disk_use, a_pod_summary, a_storage_pod

POD = a_storage_pod(volumes=["cache=100"])


class ScriptedDisk:
    def __init__(self, used):
        self.used = used
        self.counts = DiskCounts()

    async def measure(self, pods):
        if self.used is None:
            raise DiskError("/var/lib/kubelet/pods: Permission denied")
        return {pod.uid: a_disk_use(cache=self.used) for pod in pods}

    def filesystem(self):
        return Filesystem(capacity=10, available=5)


class ScriptedSummary:
    def __init__(self, found):
        self.found = found

    async def read(self):
        if self.found is None:
            raise SummaryError("kubelet: 403")
        return self.found


async def nothing():
    return None


def an_accounting(used, summary=None, pods=(POD,)):
    async def read_pods():
        return pods

    return StorageAccounting(
        node="n1",
        pods=read_pods,
        disk=ScriptedDisk(used),
        summary=ScriptedSummary(summary),
        allocatable=nothing,
        clock=SYSTEM_CLOCK,
        thresholds=(),
        log=Log("disk"),
    )


async def test_a_pod_over_its_limit_is_logged_once(caplog):
    accounting = an_accounting(101, Summary())
    with caplog.at_level(logging.WARNING, "bursar.disk"):
        for _ in range(3):
            await accounting.round()
        accounting.disk.used = 1
        await accounting.round()
        accounting.disk.used = 101
        await accounting.round()
    told = [record.fields for record in caplog.records]
    assert [each["pod"] for each in told] == ["web", "web"]
    assert told[0]["reason"] == 'Usage of EmptyDir volume "cache" exceeds the limit "100".'


async def test_without_the_summary_volumes_are_reported_all_the_same():
    accounting = an_accounting(7)
    await accounting.round()
    assert accounting.report.rows[0].use.total == 7
    assert accounting.report.problem == "kubelet: 403"
    assert (accounting.counts.summary_failures, accounting.counts.rounds) == (1, 1)


async def test_without_folders_the_kubelets_figures_are_reported():
    summary = Summary(pods={POD.uid: a_pod_summary(volumes={"cache": 8})})
    accounting = an_accounting(None, summary)
    await accounting.round()
    assert accounting.report.rows[0].use.total == 8
    assert accounting.report.problem == "/var/lib/kubelet/pods: Permission denied"
    assert accounting.counts.disk_failures == 1


@pytest.mark.parametrize("used", [7, None])
async def test_while_the_pods_are_not_known_the_last_report_stays(used):
    accounting = an_accounting(used, pods=None)
    await accounting.round()
    assert accounting.report is None
