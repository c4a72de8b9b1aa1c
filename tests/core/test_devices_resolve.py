"""From the claims of annotations to the devices that a pod holds."""

from dataclasses import replace

import pytest

from bursar.core.devices.allocation import Problem, ProblemKind, SourceReport
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.resolve import Rules, Trust, holdings_by_pod, resolve
from bursar.core.devices.source import KindRule, Source
from support.device_notation import NAMES, SOURCES, a_container, a_gpu, gpu_pod

ANY = Rules(needs_inventory=False, trust=Trust.ANY)
NODE = Inventory(
    (
        Device(kind="gpu", minor=0, id="GPU-0", numa=0, vendor="nvidia"),
        Device(kind="gpu", minor=1, id="GPU-1", numa=1, vendor="nvidia"),
        Device(
            kind="gpu", minor=2, id="185011D4", vendor="huawei", amounts={"huawei.com/npu-core": 32}
        ),
        Device(kind="gpu", minor=3, id=""),
        Device(
            kind="rdma",
            minor=0,
            id="0000:1f:00.0",
            numa=1,
            functions=(Function(address="0000:1f:00.2"), Function(address="0000:1f:00.3")),
        ),
    )
)


def held(pod, inventory=None, rules=Rules(needs_inventory=False)):  # noqa: B008 - frozen
    holdings = resolve(pod, SOURCES, inventory, rules)
    assert holdings.problems == ()
    return [(each.container, each.resource, each.device) for each in holdings.allocations]


def complaints(pod, inventory=None, rules=Rules(needs_inventory=False)):  # noqa: B008 - frozen
    holdings = resolve(pod, SOURCES, inventory, rules)
    assert holdings.allocations == ()
    return [(each.kind, each.text) for each in holdings.problems]


def the_one(pod, inventory=None):
    (allocation,) = resolve(pod, SOURCES, inventory, ANY).allocations
    return allocation


# ------------------------------------------------------------------ which id


def test_functions_are_given_and_not_the_device_they_belong_to():
    claim = Claim(
        kind="rdma",
        device="0000:1f:00.0",
        functions=("0000:1f:00.3", "0000:1f:00.2"),
        is_extended=True,
        amounts={"koordinator.sh/rdma": 1},
    )

    allocations = resolve(gpu_pod(claim), SOURCES, NODE, Rules(needs_inventory=False)).allocations

    assert [each.device for each in allocations] == ["0000:1f:00.2", "0000:1f:00.3"]
    assert {(each.parent, each.numa, each.share) for each in allocations} == {
        ("0000:1f:00.0", 1, 100)
    }


def test_a_device_without_id_is_found_by_its_number():
    assert held(gpu_pod(Claim(kind="gpu", minor=1)), NODE) == [("main", "nvidia.com/gpu", "GPU-1")]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (Claim(kind="gpu", minor=7), "'gpu': no id is known for the device number 7"),
        (Claim(kind="gpu", minor=3), "'gpu': no id is known for the device number 3"),
        (Claim(kind="gpu"), "'gpu': no id is known for the device without a number"),
        (a_gpu("GPU\n"), "gpu: 'GPU\\n' is no id"),
        (a_gpu("GPU-\ud800"), "gpu: 'GPU-\\ud800' is no id"),
        (a_gpu("x" * 254), f"gpu: '{'x' * 60}...' is no id"),
    ],
)
def test_what_has_no_id_is_left_out(claim, text):
    assert complaints(gpu_pod(claim), NODE) == [(ProblemKind.NO_ID, text)]


def test_numbers_of_a_source_that_keeps_no_inventory_mean_nothing():
    pod = gpu_pod(Claim(kind="gpu", minor=1), source="hami")

    assert [kind for kind, _ in complaints(pod, NODE)] == [ProblemKind.NO_ID]


@pytest.mark.parametrize(
    "claim",
    [
        a_gpu("GPU-9"),
        a_gpu("GPU-0", functions=("0000:1f:00.2",)),
        Claim(kind="rdma", device="GPU-0"),
        a_gpu("MIG-1", minor=9),
        a_gpu("MIG-1"),
    ],
)
def test_what_the_inventory_does_not_list_is_left_out(claim):
    ((kind, text),) = complaints(gpu_pod(claim), NODE)

    assert kind is ProblemKind.NOT_ON_NODE
    assert text.endswith("is not a device of this node")


@pytest.mark.parametrize("trust", Trust)
def test_without_an_inventory_no_device_of_a_source_that_has_inventories_is_believed(trust):
    """A tenant could name any device of the node while the agent cannot reach the API server."""
    strict = Rules(trust=trust)
    pod = gpu_pod(a_gpu("GPU-9"), a_gpu("", minor=1))

    holdings = resolve(pod, SOURCES, None, strict)

    assert holdings.allocations == ()
    assert [each.kind for each in holdings.problems] == [ProblemKind.NO_INVENTORY]
    assert "not known" in holdings.problems[0].text
    assert held(gpu_pod(a_gpu("GPU-9"), source="hami"), rules=strict) == [
        ("main", "nvidia.com/gpu", "GPU-9")
    ]


def test_without_an_inventory_ids_are_believed_where_that_is_asked_for():
    assert held(gpu_pod(a_gpu("GPU-9"))) == [("main", "nvidia.com/gpu", "GPU-9")]


def test_a_source_with_devices_of_its_own_is_not_checked_but_told_of_numa():
    pods = [gpu_pod(a_gpu(each), source="hami") for each in ("GPU-9", "GPU-1")]

    assert [(each.device, each.numa) for each in (the_one(pod, NODE) for pod in pods)] == [
        ("GPU-9", None),
        ("GPU-1", 1),
    ]


def test_a_partition_is_checked_by_the_number_of_its_device():
    allocation = the_one(gpu_pod(a_gpu("MIG-1", minor=1)), NODE)

    assert (allocation.device, allocation.parent, allocation.numa, allocation.share) == (
        "MIG-1",
        "GPU-1",
        1,
        100,
    )


def test_a_partition_that_the_inventory_lists_is_a_device_like_others():
    inventory = Inventory((Device(kind="gpu", minor=0, id="MIG-1", numa=0),))

    assert the_one(gpu_pod(a_gpu("MIG-1", minor=5)), inventory).parent == ""


# ------------------------------------------------------------------ which name


@pytest.mark.parametrize(
    ("claim", "resource"),
    [
        (a_gpu("GPU-0"), "nvidia.com/gpu"),
        (a_gpu("MIG-0"), "nvidia.com/gpu"),
        (a_gpu("185011D4"), "koordinator.sh/gpu"),
        (a_gpu("185011D4", vendor="Huawei"), "huawei.com/Ascend910"),
        (a_gpu("1", vendor="cambricon"), "cambricon.com/mlu"),
        (a_gpu("1", vendor="metax"), "metax-tech.com/gpu"),
        (a_gpu("1", vendor="baidu"), "baidu.com/xpu"),
        (a_gpu("GPU-0", vendor="acme"), "koordinator.sh/gpu"),
        (Claim(kind="rdma", device="0000:1f:00.0"), "koordinator.sh/rdma"),
        (Claim(kind="fpga", device="1"), "koordinator.sh/fpga"),
        (Claim(kind="xpu", device="1"), "koordinator.sh/xpu"),
    ],
)
def test_the_name_follows_kind_and_vendor(claim, resource):
    assert the_one(gpu_pod(claim)).resource == resource


def test_the_inventory_knows_the_vendor_better_than_the_annotation():
    claim = a_gpu("185011D4", vendor="nvidia")

    assert the_one(gpu_pod(claim), NODE).resource == "huawei.com/Ascend910"


@pytest.mark.parametrize("source", ["koordinator", "unheard-of"])
def test_a_kind_of_which_nothing_is_known_is_left_out(source):
    pod = gpu_pod(Claim(kind="tpu\x1b", device="1"), source=source)

    assert complaints(pod, rules=ANY) == [(ProblemKind.UNKNOWN_KIND, "unknown kind 'tpu\\x1b'")]


# ------------------------------------------------------------------ whom to believe


def test_a_pod_that_asks_for_nothing_is_given_nothing():
    pod = gpu_pod(a_gpu(), containers=(a_container(rdma=100), a_container("idle", gpu=0)))

    assert complaints(pod) == [(ProblemKind.NOT_ASKED_FOR, "the pod asks for no 'gpu'")]
    assert held(pod, rules=ANY) == [("main", "nvidia.com/gpu", "GPU-0")]


def test_a_kind_without_names_to_ask_by_is_asked_for_by_its_own():
    asks = a_container(gpu=1)

    assert held(gpu_pod(a_gpu(), containers=(asks,), source="hami"))
    assert complaints(gpu_pod(a_gpu(), containers=(a_container(core=1),), source="hami"))


def test_only_pods_of_the_listed_schedulers_are_believed():
    rules = Rules(needs_inventory=False, schedulers=frozenset({"koord-scheduler"}))
    ours = gpu_pod(a_gpu(), scheduler="koord-scheduler")

    assert held(ours, rules=rules)
    assert complaints(replace(ours, scheduler="default-scheduler"), rules=rules) == [
        (
            ProblemKind.WRONG_SCHEDULER,
            "the pod's scheduler is 'default-scheduler', which gives no devices",
        )
    ]
    assert complaints(gpu_pod(scheduler="default-scheduler"), rules=rules) == []


def test_an_annotation_that_cannot_be_read_is_a_problem_and_nothing_else():
    pod = replace(gpu_pod(), claims=(Claims(source="koordinator", problem="not JSON"),))

    assert resolve(pod, SOURCES, NODE, Rules(needs_inventory=False)).problems == (
        Problem(kind=ProblemKind.UNREADABLE, source="koordinator", text="not JSON"),
    )


def test_devices_beyond_the_bound_are_left_out():
    pod = gpu_pod(*(a_gpu(f"GPU-{number}") for number in range(5)))

    holdings = resolve(pod, SOURCES, None, Rules(needs_inventory=False, devices_max=2))

    assert [each.device for each in holdings.allocations] == ["GPU-0", "GPU-1"]
    assert [(each.kind, each.text) for each in holdings.problems] == [
        (ProblemKind.TOO_MANY, "more than 2 devices, and 2 more")
    ]


# ------------------------------------------------------------------ which container


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([a_container("a"), a_container("b", gpu=3)], "bbb"),
        ([a_container("a", gpu=1), a_container("b", gpu=2)], "abb"),
        ([a_container("a", core=150), a_container("b", core=150)], "aab"),
        ([a_container("a", gpu=10**30), a_container("b", gpu=1)], "aaa"),
    ],
)
def test_containers_get_what_they_ask_for_in_the_order_of_the_spec(containers, expected):
    pod = gpu_pod(a_gpu("GPU-0"), a_gpu("GPU-1"), a_gpu("GPU-2"), containers=tuple(containers))

    assert "".join(name for name, *_ in held(pod)) == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([a_container("a", gpu=1), a_container("b", gpu=1)], "aba"),
        ([a_container("a", memory=80), a_container("b", memory=8)], "aba"),
    ],
)
def test_what_nobody_asks_for_goes_to_the_first_who_asks_at_all(containers, expected):
    pod = gpu_pod(a_gpu("GPU-0"), a_gpu("GPU-1"), a_gpu("GPU-2"), containers=tuple(containers))

    assert "".join(name for name, *_ in held(pod, rules=ANY)) == expected


def test_percent_of_a_kind_are_not_taken_for_devices():
    claims = [Claim(kind="rdma", device=each) for each in "12"]
    containers = a_container("a", rdma=100), a_container("b", rdma=100)

    assert "".join(name for name, *_ in held(gpu_pod(*claims, containers=containers))) == "ab"


def test_a_kind_without_words_on_amounts_is_counted_by_its_own_name():
    plain = Source(name="hami", annotation="a", kinds={"gpu": KindRule(resource=NAMES["gpu"])})
    containers = a_container("a", gpu=2), a_container("b", gpu=1)
    pod = gpu_pod(*(a_gpu(each) for each in "123"), containers=containers, source="hami")
    holdings = resolve(pod, {"hami": plain}, None, Rules(needs_inventory=False))

    assert "".join(each.container for each in holdings.allocations) == "aab"


def test_a_sidecar_that_asks_gets_it_and_one_that_does_not_gets_nothing():
    idle = gpu_pod(a_gpu(), sidecars=(a_container("proxy"),))
    asking = gpu_pod(a_gpu(), sidecars=(a_container("proxy", gpu=1),))

    assert [name for name, *_ in held(idle)] == ["main"]
    assert [name for name, *_ in held(asking)] == ["proxy"]
    assert resolve(idle, SOURCES, None, ANY).sidecars == ("proxy",)


def test_nobody_asks_and_the_first_app_container_gets_it():
    pod = gpu_pod(a_gpu(), containers=(a_container(),), sidecars=(a_container("proxy"),))

    assert the_one(pod).container == "main"
    assert the_one(replace(pod, containers=())).container == ""


def test_the_source_may_name_the_container():
    containers = (a_container("a", gpu=1), a_container("b"))
    claims = a_gpu("GPU-0", container="b"), a_gpu("GPU-1", container_index=1), a_gpu("GPU-2")
    pod = gpu_pod(*claims, containers=containers)

    assert "".join(name for name, *_ in held(pod, rules=ANY)) == "bba"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (a_gpu(container="b"), "the pod has no container 'b'"),
        (a_gpu(container_index=1), "the pod has no container number 1"),
        (a_gpu(container_index=-1), "the pod has no container number -1"),
    ],
)
def test_a_container_that_is_not_there_gets_nothing(claim, text):
    assert complaints(gpu_pod(claim)) == [(ProblemKind.UNKNOWN_CONTAINER, text)]


# ------------------------------------------------------------------ how much


@pytest.mark.parametrize(
    ("claim", "share"),
    [
        (a_gpu(), 100),
        (a_gpu(amounts={"koordinator.sh/gpu-core": 30, "koordinator.sh/gpu-memory-ratio": 50}), 50),
        (a_gpu(amounts={"kubernetes.io/gpu-core": 60}), 60),
        (a_gpu(amounts={"koordinator.sh/gpu-core": 800}), 100),
        (a_gpu(amounts={"koordinator.sh/gpu-core": -5}), 0),
        (a_gpu(amounts={"koordinator.sh/gpu-memory": 1}), 0),
        (a_gpu(amounts={"nvidia.com/gpu": 1, "koordinator.sh/gpu-memory": 1}), 100),
        (a_gpu("185011D4", amounts={"huawei.com/npu-core": 9}, template="vir04"), 29),
        (a_gpu("GPU-0", amounts={"huawei.com/npu-core": 9}, template="vir04"), 0),
    ],
)
def test_the_share_is_what_the_amounts_say(claim, share):
    assert the_one(gpu_pod(claim), NODE).share == share


def test_a_template_without_inventory_is_a_part_of_unknown_size():
    assert the_one(gpu_pod(a_gpu(template="vir04", is_extended=True))).share == 0


def test_the_number_of_a_share_is_not_taken_for_another_device():
    shares = [a_gpu(f"GPU-1::{number}") for number in range(2)]

    assert (the_one(gpu_pod(*shares), NODE).device, the_one(gpu_pod(*shares)).share) == ("GPU-1", 0)


def test_one_device_named_twice_is_one_device():
    half = a_gpu(amounts={"koordinator.sh/gpu-core": 30})
    same = a_gpu(amounts={"nvidia.com/gpucores": 40})
    pod = gpu_pod(half, half)
    both = replace(pod, claims=(*pod.claims, Claims(source="hami", claims=(same,))))

    assert (the_one(pod).share, the_one(pod).reports) == (60, ())
    assert (the_one(both).source, the_one(both).share) == ("koordinator", 60)
    assert the_one(both).reports == (
        SourceReport("koordinator", "main", 60),
        SourceReport("hami", "main", 40),
    )


# ------------------------------------------------------------------ all pods of a node


def test_pods_of_which_no_source_speaks_hold_nothing():
    silent = DevicePod(namespace="default", name="silent")

    assert list(
        holdings_by_pod([silent, gpu_pod(a_gpu())], SOURCES, None, Rules(needs_inventory=False))
    ) == [("default", "web")]


def test_shares_are_numbered_in_the_order_of_pods_if_wanted():
    half = a_gpu(amounts={"koordinator.sh/gpu-core": 50})
    nic = Claim(kind="rdma", device="0000:1f:00.0", amounts={"koordinator.sh/rdma": 50})
    pods = [replace(gpu_pod(half, nic, a_gpu("GPU-1")), name=name) for name in ("b", "a")]
    ended = replace(pods[0], name="0", is_terminal=True)

    def ids(rules):
        found = holdings_by_pod([*pods, ended], SOURCES, None, rules)
        return {
            name: [each.shown_id for each in holdings.allocations]
            for (_, name), holdings in found.items()
        }

    assert ids(Rules(needs_inventory=False, numbers_shares=True)) == {
        "a": ["0000:1f:00.0", "GPU-0::0", "GPU-1"],
        "b": ["0000:1f:00.0", "GPU-0::1", "GPU-1"],
        "0": ["0000:1f:00.0", "GPU-0", "GPU-1"],
    }
    assert ids(Rules(needs_inventory=False))["b"] == ["0000:1f:00.0", "GPU-0", "GPU-1"]
