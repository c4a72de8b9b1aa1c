"""The report over many nodes: what is compared, and what is left out."""

from dataclasses import replace

from bursar.app.devices.reports.report import (
    Evidence,
    device_lines,
    idle_devices,
    node_of_report,
)
from bursar.core.devices.allocation import Entry, ReportedContainer, ReportedPod
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import StatusDevice
from bursar.core.devices.rows import ClaimDevice
from bursar.core.devices.source import KOORDINATOR
from support import device_notation
from support.device_notation import a_container, a_gpu

SOURCES = {KOORDINATOR.name: KOORDINATOR}
GPU = "nvidia.com/gpu"
RDMA = "koordinator.sh/rdma"


def on_n1(name, *claims, **facts):
    usual = {"node": "n1", "containers": (a_container(gpu=1, rdma=1),)}
    return device_notation.gpu_pod(*claims, name=name, **{**usual, **facts})


def a_report(name, device, resource=GPU, namespace="default"):
    entry = Entry(resource=resource, devices=(device,))
    container = ReportedContainer(name="main", entries=(entry,))
    return ReportedPod(namespace=namespace, name=name, containers=(container,))


def seen(lines):
    """Node, pod, device, and what is said against it."""
    return [
        (line.row.node, line.row.pod, line.row.device, "; ".join(line.row.disagreements))
        for line in lines
    ]


# ------------------------------------------------------------------ who has what


def test_devices_are_listed_by_node_and_pod():
    pods = [
        on_n1("b", a_gpu("GPU-2")),
        on_n1("a", a_gpu("GPU-1")),
        on_n1("c", a_gpu("GPU-1"), node="n0"),
    ]

    assert seen(device_lines(Evidence(pods=pods), SOURCES)) == [
        ("n0", "c", "GPU-1", ""),
        ("n1", "a", "GPU-1", ""),
        ("n1", "b", "GPU-2", ""),
    ]


def test_pods_of_other_namespaces_are_compared_but_not_shown():
    pods = [on_n1("a", a_gpu("GPU-1")), on_n1("b", a_gpu("GPU-1"), namespace="other")]
    lines = device_lines(Evidence(pods=pods), SOURCES, namespace="default")

    assert seen(lines) == [("n1", "a", "GPU-1", "also held by other/b (100 %)")]


def test_one_node_can_be_named():
    pods = [on_n1("a", a_gpu("GPU-1")), on_n1("b", a_gpu("GPU-2"), node="n2")]

    assert seen(device_lines(Evidence(pods=pods), SOURCES, node="n2")) == [("n2", "b", "GPU-2", "")]


def test_pods_on_no_node_yet_have_nothing_in_common():
    pods = [on_n1("a", a_gpu("GPU-1"), node=""), on_n1("b", a_gpu("GPU-1"), node="")]

    assert seen(device_lines(Evidence(pods=pods), SOURCES)) == [
        ("", "a", "GPU-1", ""),
        ("", "b", "GPU-1", ""),
    ]


def test_words_that_lead_to_no_device_have_a_line_of_their_own():
    unreadable = replace(
        on_n1("bad"), claims=(Claims(source=KOORDINATOR.name, problem="not JSON"),)
    )
    elsewhere = on_n1("moved", a_gpu("GPU-1"), a_gpu("GPU-9"))
    inventory = Inventory((Device(kind="gpu", minor=0, id="GPU-1"),))
    evidence = Evidence(pods=[unreadable, elsewhere], inventories={"n1": inventory})

    assert seen(device_lines(evidence, SOURCES)) == [
        ("n1", "bad", "", "the annotation cannot be read: not JSON"),
        ("n1", "moved", "GPU-1", ""),
        ("n1", "moved", "", "gpu: 'GPU-9' is not a device of this node"),
    ]


def test_the_inventory_is_told_beside_each_device():
    card = Device(kind="gpu", minor=0, id="GPU-1", is_healthy=False, numa=1)
    port = Device(
        kind="rdma", minor=0, id="0000:1f:00.0", functions=(Function(address="0000:1f:00.2"),)
    )
    function = Claim(kind="rdma", device="0000:1f:00.0", functions=("0000:1f:00.2",))
    evidence = Evidence(
        pods=[on_n1("a", a_gpu("GPU-1"), function)],
        inventories={"n1": Inventory((card, port))},
    )
    lines = device_lines(evidence, SOURCES)

    assert [line.known for line in lines] == [port, card]
    assert seen(lines)[1] == ("n1", "a", "GPU-1", "not healthy")


# ------------------------------------------------------------------ pods that have ended


def test_what_an_ended_pod_had_is_nobodys():
    ended = on_n1("a", a_gpu("GPU-1"), is_terminal=True)
    pods = [ended, on_n1("b", a_gpu("GPU-1"))]

    assert seen(device_lines(Evidence(pods=pods), SOURCES)) == [("n1", "b", "GPU-1", "")]


def test_ended_pod_that_kubelet_still_reports_is_told():
    ended = on_n1("a", a_gpu("GPU-1"), is_terminal=True)
    evidence = Evidence(pods=[ended], reported={"n1": [a_report("a", "GPU-1")]})

    assert seen(device_lines(evidence, SOURCES)) == [("n1", "a", "GPU-1", "the pod has ended")]


def test_pod_born_again_speaks_for_its_name():
    before = on_n1("web-0", a_gpu("GPU-1"), is_terminating=True, created="2026-01-01T00:00:00Z")
    after = on_n1("web-0", a_gpu("GPU-2"), created="2026-01-02T00:00:00Z")

    assert seen(device_lines(Evidence(pods=[after, before]), SOURCES)) == [
        ("n1", "web-0", "GPU-2", "")
    ]


# ------------------------------------------------------------------ what kubelet says


def test_kubelet_and_annotation_are_compared():
    evidence = Evidence(
        pods=[on_n1("a", a_gpu("GPU-1"))], reported={"n1": [a_report("a", "GPU-2")]}
    )

    assert seen(device_lines(evidence, SOURCES)) == [
        ("n1", "a", "GPU-1", "kubelet says 'GPU-2'"),
        ("n1", "a", "GPU-2", "koordinator says 'GPU-1'"),
    ]


def test_both_who_agree_are_named():
    evidence = Evidence(
        pods=[on_n1("a", a_gpu("GPU-1"))], reported={"n1": [a_report("a", "GPU-1")]}
    )
    (line,) = device_lines(evidence, SOURCES)

    assert (line.row.sources, line.row.disagreements) == (("kubelet", "koordinator"), ())


def test_health_in_the_status_is_told():
    stated = StatusDevice(container="main", resource=GPU, device="GPU-1", health="Unhealthy")
    fine = replace(stated, device="GPU-2", health="Healthy")
    pod = replace(on_n1("a"), status_devices=(stated, fine))

    assert seen(device_lines(Evidence(pods=[pod]), SOURCES)) == [
        ("n1", "a", "GPU-1", "status says that it is not healthy"),
        ("n1", "a", "GPU-2", ""),
    ]


def test_node_of_an_answer_is_that_of_its_pods():
    pods = [on_n1("a"), on_n1("b", node="n2"), on_n1("c", node="")]

    assert node_of_report([a_report("a", "GPU-1")], pods) == "n1"
    assert node_of_report([a_report("a", "x"), a_report("c", "x")], pods) == "n1"
    assert node_of_report([a_report("a", "x"), a_report("b", "y")], pods) is None
    assert node_of_report([a_report("stranger", "x")], pods) is None


# ------------------------------------------------------------------ claims


def a_dynamic(pod):
    return ClaimDevice(
        namespace="default", pod=pod, driver="gpu.example.com", pool="n1", device="dev-0"
    )


def test_claims_are_shown_on_the_node_of_their_pod():
    evidence = Evidence(pods=[on_n1("a")], dynamic=[a_dynamic("a"), a_dynamic("stranger")])

    assert seen(device_lines(evidence, SOURCES)) == [
        ("", "stranger", "n1/dev-0", ""),
        ("n1", "a", "n1/dev-0", ""),
    ]


def test_status_tells_which_container_has_what_a_claim_gave():
    stated = StatusDevice(
        container="main", resource="claim:mine", device="gpu.example.com/n1/dev-0"
    )
    pod = replace(on_n1("a"), status_devices=(stated,))
    (line,) = device_lines(Evidence(pods=[pod], dynamic=[a_dynamic("a")]), SOURCES)
    (alone,) = device_lines(Evidence(pods=[pod]), SOURCES)

    assert (line.row.container, line.row.resource, line.row.sources) == (
        *("main", "gpu.example.com"),
        ("dra",),
    )
    assert (alone.row.resource, alone.row.sources) == ("claim:mine", ("status",))


def test_kubelet_tells_which_container_has_what_a_claim_gave():
    told = replace(a_dynamic("a"), container="main")
    stranger = replace(a_dynamic("static"), container="main")
    evidence = Evidence(
        pods=[on_n1("a")], dynamic=[a_dynamic("a")], claimed={"n1": [told, stranger]}
    )
    lines = device_lines(evidence, SOURCES)

    assert [(each.row.node, each.row.pod, each.row.container) for each in lines] == [
        ("n1", "a", "main"),
        ("n1", "static", "main"),
    ]
    assert [each.row.disagreements for each in lines] == [(), ()]


# ------------------------------------------------------------------ what nobody has


PORT = Device(
    kind="rdma",
    minor=0,
    id="0000:1f:00.0",
    functions=(Function(address="0000:1f:00.2"), Function(address="0000:1f:00.3")),
)
CARDS = tuple(Device(kind="gpu", minor=n, id=f"GPU-{n}", vendor="nvidia") for n in range(3))


def idle(pods=(), reported=()):
    evidence = Evidence(
        pods=pods, inventories={"n1": Inventory((*CARDS, PORT))}, reported={"n1": reported}
    )
    return [each.device for each in idle_devices(evidence, SOURCES)]


def test_everything_is_idle_at_first_and_a_port_is_listed_by_its_functions():
    assert idle() == ["0000:1f:00.2", "0000:1f:00.3", "GPU-0", "GPU-1", "GPU-2"]


def test_what_anybody_has_is_not_idle():
    share = a_gpu("GPU-1", amounts={"koordinator.sh/gpu-core": 20})
    function = Claim(kind="rdma", device=PORT.id, functions=("0000:1f:00.2",))

    assert idle([on_n1("a", share, function)], [a_report("b", "GPU-2")]) == [
        "0000:1f:00.3",
        "GPU-0",
    ]


def test_port_that_is_held_whole_has_no_idle_function():
    assert idle([on_n1("a", Claim(kind="rdma", device=PORT.id))]) == [
        "GPU-0",
        "GPU-1",
        "GPU-2",
    ]


def test_unhealthy_devices_and_other_nodes_are_not_idle():
    ill = Inventory((replace(CARDS[0], is_healthy=False), CARDS[1]))
    evidence = Evidence(inventories={"n1": ill, "n2": Inventory(CARDS[:1])})

    assert [each.device for each in idle_devices(evidence, SOURCES, node="n1")] == ["GPU-1"]
    assert [each.node for each in idle_devices(evidence, SOURCES)] == ["n1", "n2"]
