"""The report of a node's disk: figures of two sides, forecasts, and the order of eviction."""

from bursar.app.storage.document import node_document
from bursar.app.storage.ports import DiskUse
from bursar.app.storage.report import (
    GrowthHistory,
    NodeFacts,
    node_report,
    over_limits,
    pod_use,
)
from bursar.core.storage.limits import LimitKind
from bursar.core.storage.pressure import Filesystem, parse_thresholds
from bursar.core.storage.summary import PodSummary, Summary
from bursar.core.storage.usage import ContainerUse, Measure, Way
from support.nodes.storage import a_disk_use, a_pod_summary, a_storage_pod

GROWING = a_storage_pod(volumes=["cache=1000"])


def facts(at_s, pods, disk=None, **fields):
    return NodeFacts(node="n1", at_ms=at_s * 1000, pods=pods, disk=disk, **fields)


# ------------------------------------------------------------------ use


def test_folders_are_measured_here_and_layers_come_from_the_kubelet():
    use = pod_use(GROWING, a_disk_use(logs=9, other=1, cache=50), a_pod_summary(writable=7, logs=2))
    assert use.containers == {"app": ContainerUse(writable=7, logs=9)}
    assert (use.total, use.is_complete) == (7 + 9 + 50 + 1, True)


def test_without_the_kubelets_summary_layers_are_not_known():
    disk = DiskUse(volumes={}, logs={"app": 9, "finished-init": 5})
    use = pod_use(GROWING, disk, None)
    assert (use.total, use.is_complete) == (9, False)


def test_without_folders_the_kubelets_figures_are_used():
    in_memory = a_storage_pod(volumes=["cache"])
    summary = a_pod_summary(writable=7, logs=2, volumes={"cache": 5, "token": 4}, ephemeral=20)
    use = pod_use(in_memory, None, summary)
    assert use.volumes == {"cache": Measure(used=5, way=Way.KUBELET)}
    assert (use.total, use.other) == (20, 6)
    assert pod_use(GROWING, None, None).total == 0


def test_the_kubelets_figure_stands_in_for_a_scan_that_did_not_end():
    cut = Measure(used=10, is_complete=False, problem="too many")
    disk = DiskUse(volumes={"cache": cut})
    found = pod_use(GROWING, disk, a_pod_summary(volumes={"cache": 99})).volumes["cache"]
    assert (found.used, found.way, found.is_complete) == (99, Way.KUBELET, True)
    found = pod_use(GROWING, disk, a_pod_summary(volumes={"cache": 9})).volumes["cache"]
    assert found is cut


# ------------------------------------------------------------------ forecasts


def test_the_time_left_follows_from_the_rate():
    history = GrowthHistory()
    for at_s, used in ((0, 100), (10, 300)):
        report = node_report(facts(at_s, [GROWING], {GROWING.uid: a_disk_use(cache=used)}), history)
    (row,) = report.rows
    # 20 bytes a second, and 701 more are too many.
    assert (row.bytes_per_second, row.seconds_left, row.evicted_for) == (20, 36, None)
    report = node_report(facts(20, [GROWING], {GROWING.uid: a_disk_use(cache=1001)}), history)
    (row,) = report.rows
    assert row.seconds_left == 0
    assert row.evicted_for is not None
    assert over_limits(report)[LimitKind.EMPTY_DIR] == 1


def test_a_critical_pod_is_never_evicted():
    pod = a_storage_pod(limit="5", is_critical=True)
    report = node_report(facts(0, [pod], {pod.uid: a_disk_use(logs=9)}), GrowthHistory())
    (row,) = report.rows
    assert (row.evicted_for, row.seconds_left, row.place) == (None, None, None)


def test_the_fullest_limit_is_next_while_nothing_grows():
    pod = a_storage_pod(volumes=["small=10", "large=1000"])
    report = node_report(facts(0, [pod], {pod.uid: a_disk_use(small=1, large=1)}), GrowthHistory())
    found = report.rows[0].next_limit
    assert found is not None
    assert (found.state.name, found.seconds) == ("small", None)


def test_history_forgets_pods_that_are_gone():
    history = GrowthHistory()
    node_report(facts(0, [GROWING], {GROWING.uid: a_disk_use(cache=1)}), history)
    assert len(history) == 2
    node_report(facts(10, [], {}), history)
    assert len(history) == 0


# ------------------------------------------------------------------ the node


def test_rows_are_sorted_by_use_and_placed_in_the_order_of_eviction():
    modest = a_storage_pod("modest", request="1k")
    greedy = a_storage_pod("greedy")
    ended = a_storage_pod("ended", is_ended=True)
    disk = {modest.uid: a_disk_use(data=500), greedy.uid: a_disk_use(data=300)}
    nodefs = Filesystem(capacity=1000, available=50)
    report = node_report(
        facts(
            0,
            [modest, greedy, ended],
            disk,
            nodefs=nodefs,
            thresholds=parse_thresholds("nodefs.available<10%,imagefs.available<60"),
        ),
        GrowthHistory(),
    )
    assert [row.pod.name for row in report.rows] == ["modest", "greedy"]
    assert [row.pod.name for row in report.order] == ["greedy", "modest"]
    assert [(each.state.signal.value, each.state.is_met) for each in report.signals] == [
        ("nodefs.available", True),
        ("imagefs.available", True),
    ]
    assert report.requested == 1000


def test_a_filesystem_that_fills_up_has_a_time_left():
    history, thresholds = GrowthHistory(), parse_thresholds("nodefs.available<100")
    for at_s, available in ((0, 600), (10, 500)):
        summary = Summary(nodefs=Filesystem(capacity=1000, available=available))
        report = node_report(facts(at_s, [], summary=summary, thresholds=thresholds), history)
    assert report.signals[0].seconds == 41


def test_an_image_filesystem_has_signals_of_its_own():
    summary = Summary(
        nodefs=Filesystem(capacity=1000, available=500),
        imagefs=Filesystem(capacity=2000, available=7),
        pods={"uid-web": PodSummary(namespace="shop", name="web", uid="uid-web")},
    )
    thresholds = parse_thresholds("imagefs.available<10")
    report = node_report(
        facts(0, [GROWING], summary=summary, thresholds=thresholds), GrowthHistory()
    )
    assert report.has_image_filesystem
    assert report.signals[0].state.available == 7


# ------------------------------------------------------------------ as a document


def test_the_document_has_every_figure():
    pod = a_storage_pod(limit="1k", request="10", volumes=["cache=100"])
    report = node_report(
        facts(
            0,
            [pod],
            {pod.uid: a_disk_use(logs=1, other=2, cache=101, config=3)},
            summary=Summary(pods={pod.uid: a_pod_summary(writable=4)}),
            nodefs=Filesystem(capacity=10, available=5, inodes=4, inodes_free=3),
            allocatable=9,
            thresholds=parse_thresholds("nodefs.available<6"),
        ),
        GrowthHistory(),
    )
    document = node_document(report)
    (shown,) = document["pods"]
    assert document["filesystem"] == {
        "capacity": 10,
        "available": 5,
        "inodes": 4,
        "inodesFree": 3,
    }
    assert document["signals"][0]["met"]
    assert (shown["used"], shown["evicted"], shown["secondsLeft"]) == (111, True, 0)
    assert shown["reason"] == 'Usage of EmptyDir volume "cache" exceeds the limit "100".'
    assert shown["nextLimit"]["kind"] == "emptydirfs.limit"
    assert [each["name"] for each in shown["volumes"]] == ["cache", "config"]
    assert shown["containers"] == [
        {"name": "app", "writable": 4, "logs": 1, "request": 0, "limit": 1000}
    ]
    assert node_document(node_report(facts(0, []), GrowthHistory()))["filesystem"] is None
