"""Kubelet's responses: nothing is lost, and added lines are encoded as kubelet does."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

import generate_protocol
from bursar.core.devices.allocation import Additions, Entry, ReportedContainer, ReportedPod
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from bursar.wire.devices.pod_resources import v1alpha1_pb2 as v1alpha1
from bursar.wire.devices.pod_resources.pod_cache import POD_BYTES_MAX, PodCache
from bursar.wire.devices.pod_resources.response import AllocatableResponse, PodsResponse

GPU = Entry(resource="nvidia.com/gpu", devices=("GPU-1",), numa=0)
ANY_GPU = Entry(resource="nvidia.com/gpu", devices=("GPU-2",))
UNKNOWN_FIELD = b"\xf2\x3f\x05later"  # number 1022, a text


def node_answer() -> v1.ListPodResourcesResponse:
    """Two pods: one with all that kubelet can say, one with nothing."""
    answer = v1.ListPodResourcesResponse()
    busy = answer.pod_resources.add(name="train-0", namespace="ml")
    busy.containers.add(name="proxy")
    main = busy.containers.add(name="main", cpu_ids=[3, 1, 2])
    nic = main.devices.add(resource_name="vendor.example/nic", device_ids=["0000:01:00.2"])
    nic.topology.nodes.add(ID=1)
    main.devices.add(resource_name="vendor.example/fuse", device_ids=["fuse-7"])
    main.memory.add(memory_type="hugepages-2Mi", size=2**21).topology.nodes.add(ID=0)
    claim = main.dynamic_resources.add(claim_name="net", claim_namespace="ml")
    claim.claim_resources.add(
        driver_name="dra.example", pool_name="node", device_name="nic-0", share_id=""
    ).cdi_devices.add(name="vendor.example/nic=nic-0")
    answer.pod_resources.add(name="web", namespace="shop").containers.add(name="web")
    return answer


def opened(answer: Message | bytes, *, has_topology: bool = True) -> PodsResponse:
    body = answer if isinstance(answer, bytes) else answer.SerializeToString()
    return PodsResponse(body, PodCache(has_topology=has_topology))


def read(message: PodsResponse) -> v1.ListPodResourcesResponse:
    return v1.ListPodResourcesResponse.FromString(message.encode())


# ------------------------------------------------------------------ the protocol


def test_compiled_modules_are_those_of_the_protocol_files(tmp_path):
    fresh = generate_protocol.generate(tmp_path)
    source = generate_protocol.ROOT / "src"
    kept = [
        path
        for package in generate_protocol.PACKAGES.values()
        for path in sorted((source / package).glob("*_pb2.py*"))
    ]

    assert [path.name for path in fresh] == [path.name for path in kept]
    assert [path.read_text() for path in fresh] == [path.read_text() for path in kept], (
        "run `make protocol`"
    )


def test_packages_are_called_as_kubelet_calls_them():
    assert v1.DESCRIPTOR.package == "v1"
    assert v1alpha1.DESCRIPTOR.package == "v1alpha1"


def test_bytes_of_one_version_are_read_by_the_other():
    older = v1alpha1.ListPodResourcesResponse.FromString(node_answer().SerializeToString())

    assert [pod.name for pod in older.pod_resources] == ["train-0", "web"]
    assert older.SerializeToString() == node_answer().SerializeToString()


# ------------------------------------------------------------------ pods


def test_answer_names_its_pods_in_kubelets_order():
    assert opened(node_answer()).keys == [("ml", "train-0"), ("shop", "web")]


def test_pod_is_reported_with_sidecars_lines_and_topology():
    assert opened(node_answer()).reported(0) == ReportedPod(
        namespace="ml",
        name="train-0",
        containers=(
            ReportedContainer(name="proxy"),
            ReportedContainer(
                name="main",
                entries=(
                    Entry(resource="vendor.example/nic", devices=("0000:01:00.2",), numa=1),
                    Entry(resource="vendor.example/fuse", devices=("fuse-7",)),
                ),
            ),
        ),
    )


def test_answer_to_which_nothing_is_added_is_the_same_bytes():
    body = node_answer().SerializeToString() + UNKNOWN_FIELD

    message = opened(body)
    message.reported(0)

    assert message.encode() is body


def test_lines_are_added_after_kubelets_own_and_nothing_else_changes():
    message = opened(node_answer())
    message.enlarge(0, Additions(entries={"main": (GPU, ANY_GPU), "gone": (GPU,)}))

    expected = node_answer()
    lines = expected.pod_resources[0].containers[1].devices
    lines.add(resource_name="nvidia.com/gpu", device_ids=["GPU-1"]).topology.nodes.add(ID=0)
    lines.add(resource_name="nvidia.com/gpu", device_ids=["GPU-2"])
    assert message.encode() == expected.SerializeToString()


def test_numa_node_zero_is_not_the_same_as_no_topology():
    message = opened(node_answer())
    message.enlarge(1, Additions(entries={"web": (GPU, ANY_GPU)}))

    known, unknown = read(message).pod_resources[1].containers[0].devices
    assert known.HasField("topology")
    assert [node.ID for node in known.topology.nodes] == [0]
    assert not unknown.HasField("topology")


def test_older_version_is_told_no_topology():
    message = opened(node_answer(), has_topology=False)
    message.enlarge(1, Additions(entries={"web": (GPU,)}))

    (line,) = read(message).pod_resources[1].containers[0].devices
    assert not line.HasField("topology")


def test_lines_are_put_in_order_of_their_resource_only_where_that_is_wanted():
    message = opened(node_answer())
    early = Entry(resource="", devices=("", "x"))
    message.enlarge(0, Additions(entries={"main": (GPU, early)}, sorts=True))

    main = read(message).pod_resources[0].containers[1]
    assert [(line.resource_name, list(line.device_ids)) for line in main.devices] == [
        ("", ["", "x"]),
        ("nvidia.com/gpu", ["GPU-1"]),
        ("vendor.example/fuse", ["fuse-7"]),
        ("vendor.example/nic", ["0000:01:00.2"]),
    ]
    assert main.dynamic_resources == node_answer().pod_resources[0].containers[1].dynamic_resources


def test_lines_of_one_resource_stay_in_their_order_when_sorted():
    message = opened(node_answer())
    twice = (ANY_GPU, GPU)
    message.enlarge(1, Additions(entries={"web": twice}, sorts=True))

    assert [entry.devices for entry in reported_again(message, 1)] == [("GPU-2",), ("GPU-1",)]


def reported_again(message: PodsResponse, index: int) -> tuple[Entry, ...]:
    return opened(message.encode()).reported(index).containers[0].entries


def test_lines_are_sorted_even_if_none_is_added():
    message = opened(node_answer())
    message.enlarge(0, Additions(entries={"main": ()}, sorts=True))

    names = [line.resource_name for line in read(message).pod_resources[0].containers[1].devices]
    assert names == ["vendor.example/fuse", "vendor.example/nic"]


def test_line_without_ids_can_be_added():
    message = opened(node_answer())
    message.enlarge(1, Additions(entries={"web": (Entry(resource="nvidia.com/gpu", devices=()),)}))

    assert reported_again(message, 1) == (Entry(resource="nvidia.com/gpu", devices=()),)


def test_same_pod_in_the_next_answer_gets_what_is_due_then():
    pods = PodCache(has_topology=True)
    body = node_answer().SerializeToString()
    for entries in ((GPU,), (GPU,), (ANY_GPU,), ()):
        message = PodsResponse(body, pods)
        message.reported(1)
        message.enlarge(1, Additions(entries={"web": entries}))

        assert reported_again(message, 1) == entries
        assert message.reported(1).containers[0].entries == ()


def test_pod_whose_lines_change_places_gets_the_same_additions():
    cache, additions = PodCache(has_topology=True), Additions(entries={"main": (GPU,)})
    turned = node_answer()
    lines = turned.pod_resources[0].containers[1].devices
    lines.reverse()
    for answer in (node_answer(), turned):
        message = PodsResponse(answer.SerializeToString(), cache)
        message.enlarge(0, additions)
        answer.pod_resources[0].containers[1].devices.add(
            resource_name="nvidia.com/gpu", device_ids=["GPU-1"]
        ).topology.nodes.add(ID=0)

        assert read(message) == answer


def test_pod_that_is_added_to_twice_has_only_the_last_addition():
    message = opened(node_answer())
    message.enlarge(1, Additions(entries={"web": (GPU,)}))
    message.enlarge(1, Additions(entries={"web": (ANY_GPU,)}))

    assert reported_again(message, 1) == (ANY_GPU,)


def test_pods_without_devices_can_be_left_out():
    answer = node_answer()
    answer.pod_resources.add(name="idle", namespace="shop").containers.add(name="idle")
    answer.pod_resources.add(name="bare", namespace="shop")
    message = opened(answer.SerializeToString() + UNKNOWN_FIELD)
    message.enlarge(1, Additions(entries={"web": (GPU,)}))
    message.enlarge(2, Additions(entries={"idle": ()}))
    message.keep_only_with_devices()

    assert [pod.name for pod in read(message).pod_resources] == ["train-0", "web"]
    assert message.encode().endswith(UNKNOWN_FIELD)


def test_pod_with_a_claim_alone_has_devices():
    answer = v1.ListPodResourcesResponse()
    container = answer.pod_resources.add(name="a", namespace="n").containers.add(name="c")
    container.dynamic_resources.add(claim_name="net")
    message = opened(answer)
    message.keep_only_with_devices()

    assert message.encode() == answer.SerializeToString()


def test_answer_about_one_pod_is_read_alike():
    one = v1.GetPodResourcesResponse(pod_resources=node_answer().pod_resources[1])
    message = opened(one)
    message.enlarge(0, Additions(entries={"web": (GPU,)}))

    merged = v1.GetPodResourcesResponse.FromString(message.encode())
    assert [line.resource_name for line in merged.pod_resources.containers[0].devices] == [
        "nvidia.com/gpu"
    ]


def test_empty_answer_is_about_no_pods():
    assert opened(b"").keys == []
    assert opened(b"").encode() == b""


def test_pods_and_lines_too_long_to_remember_are_read_all_the_same():
    long = Entry(resource="r" * 512, devices=("d" * POD_BYTES_MAX,))
    pods = PodCache(has_topology=True)
    message = PodsResponse(node_answer().SerializeToString(), pods)
    message.enlarge(1, Additions(entries={"web": (long,)}))

    for _ in range(2):
        assert PodsResponse(message.encode(), pods).reported(1).containers[0].entries == (long,)


@pytest.mark.parametrize(
    "body", [b"\x0a", b"\x0a\x05ab", b"\x0a\x02\x0a\x01", b"\x0a\x03\x0a\x01\xff", b"\xff" * 20]
)
def test_bytes_that_are_no_answer_are_refused(body):
    with pytest.raises(ValueError, match=r"^not "):
        opened(body)


def test_line_that_cannot_be_read_is_refused_only_when_somebody_looks():
    message = opened(b"\x0a\x0a\x0a\x01p\x1a\x05\x12\x03\x0a\x01\xff")

    assert message.keys == [("", "p")]
    with pytest.raises(ValueError, match=r"^not a line of devices$"):
        message.reported(0)


# ------------------------------------------------------------------ planned additions


def planned_for(asked: list[str], additions: Additions | None):
    def plan(pod: ReportedPod) -> Additions | None:
        asked.append(pod.name)
        return additions

    return plan


@pytest.mark.parametrize("has_topology", [True, False])
def test_only_wanted_pods_are_planned_for_and_added_to(has_topology):
    message = opened(node_answer(), has_topology=has_topology)
    asked: list[str] = []
    message.add([("shop", "web")], planned_for(asked, Additions(entries={"web": (GPU,)})))

    assert asked == ["web"]
    assert read(message).pod_resources[0] == node_answer().pod_resources[0]
    (line,) = read(message).pod_resources[1].containers[0].devices
    assert line.HasField("topology") == has_topology


def test_pod_that_the_plan_leaves_alone_stays_as_it_is():
    body = node_answer().SerializeToString()
    message = opened(body)
    message.add(message.keys, planned_for([], None))

    assert message.encode() is body


def test_pod_with_unreadable_lines_stays_as_it_is_and_the_others_are_filled():
    broken = b"\x0a\x0a\x0a\x01p\x1a\x05\x12\x03\x0a\x01\xff"
    message = opened(broken + node_answer().SerializeToString())
    message.add(message.keys, planned_for([], Additions(entries={"main": (GPU,), "web": (GPU,)})))

    assert message.encode().startswith(broken)
    assert message.encode().count(b"GPU-1") == 2


def test_error_of_the_plan_is_not_hidden():
    def plan(_: ReportedPod) -> Additions | None:
        raise ValueError("a mistake of ours")

    message = opened(node_answer())
    with pytest.raises(ValueError, match="a mistake of ours"):
        message.add(message.keys, plan)


# ------------------------------------------------------------------ unknown fields


def with_unknown(message: Message) -> bytes:
    """The same message with a field nobody knows, in it and in everything it holds."""
    body = b""
    for descriptor, value in message.ListFields():
        each = value if descriptor.is_repeated else [value]
        if descriptor.message_type is None:
            alone = type(message)()
            if descriptor.is_repeated:
                getattr(alone, descriptor.name).extend(value)
            else:
                setattr(alone, descriptor.name, value)
            body += alone.SerializeToString()
            continue
        for child in each:
            inner = with_unknown(child)
            body += bytes([descriptor.number << 3 | 2]) + length(inner) + inner
    return body + UNKNOWN_FIELD


def length(body: bytes) -> bytes:
    size, digits = len(body), b""
    while size > 127:
        digits += bytes([size & 127 | 128])
        size >>= 7
    return digits + bytes([size])


def count_unknown(body: bytes) -> int:
    return body.count(UNKNOWN_FIELD)


TEXT = st.text(max_size=6)
TOPOLOGY = st.one_of(
    st.none(),
    st.lists(st.integers(-1, 3), max_size=2).map(
        lambda ids: v1.TopologyInfo(nodes=[v1.NUMANode(ID=each) for each in ids])
    ),
)
LINE = st.builds(
    v1.ContainerDevices,
    resource_name=TEXT,
    device_ids=st.lists(TEXT, max_size=3),
    topology=TOPOLOGY,
)
CONTAINER = st.builds(
    v1.ContainerResources,
    name=TEXT,
    devices=st.lists(LINE, max_size=3),
    cpu_ids=st.lists(st.integers(0, 2**40), max_size=3),
    memory=st.lists(
        st.builds(v1.ContainerMemory, memory_type=TEXT, size=st.integers(0, 2**63)), max_size=2
    ),
    dynamic_resources=st.lists(
        st.builds(
            v1.DynamicResource,
            claim_name=TEXT,
            claim_resources=st.lists(
                st.builds(v1.ClaimResource, share_id=st.one_of(st.none(), TEXT)), max_size=1
            ),
        ),
        max_size=1,
    ),
)
ANSWER = st.builds(
    v1.ListPodResourcesResponse,
    pod_resources=st.lists(
        st.builds(
            v1.PodResources, name=TEXT, namespace=TEXT, containers=st.lists(CONTAINER, max_size=2)
        ),
        max_size=3,
    ),
)


@given(ANSWER, st.booleans())
def test_fields_nobody_knows_survive_additions_at_every_level(answer, sorts):
    body = with_unknown(answer)
    message = opened(body)
    for index, pod in enumerate(answer.pod_resources):
        message.enlarge(
            index, Additions(entries={each.name: (GPU,) for each in pod.containers}, sorts=sorts)
        )

    merged = message.encode()
    containers = sum(len(pod.containers) for pod in answer.pod_resources)
    assert count_unknown(merged) == count_unknown(body)
    assert merged.count(b"GPU-1") == containers
    stripped = v1.ListPodResourcesResponse.FromString(merged)
    stripped.DiscardUnknownFields()
    for pod in stripped.pod_resources:
        for container in pod.containers:
            added = [line for line in container.devices if line.device_ids == ["GPU-1"]]
            container.devices.remove(added[-1])
    if not sorts:
        assert stripped == answer


@given(ANSWER)
def test_nothing_added_to_lines_gives_equal_bytes_after_reading_and_writing(answer):
    body = answer.SerializeToString()
    message = opened(body)
    for index, pod in enumerate(answer.pod_resources):
        message.enlarge(index, Additions(entries={each.name: () for each in pod.containers}))

    assert message.encode() == body


@given(st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(body):
    try:
        message = opened(body)
        for index in range(len(message.keys)):
            message.reported(index)
    except ValueError:
        return
    assert message.encode() == body


# ------------------------------------------------------------------ allocatable


def test_allocatable_devices_are_read_and_added_to():
    answer = v1.AllocatableResourcesResponse(cpu_ids=[1, 2])
    answer.devices.add(resource_name="vendor.example/nic", device_ids=["a"])
    answer.memory.add(memory_type="memory", size=5)
    body = answer.SerializeToString() + UNKNOWN_FIELD
    message = AllocatableResponse(body)

    assert message.entries() == [Entry(resource="vendor.example/nic", devices=("a",))]
    message.add([])
    assert message.encode() is body
    message.add([GPU])
    merged = v1.AllocatableResourcesResponse.FromString(message.encode())
    assert [line.resource_name for line in merged.devices] == [
        "vendor.example/nic",
        "nvidia.com/gpu",
    ]
    assert (list(merged.cpu_ids), merged.memory[0].size) == ([1, 2], 5)
    assert UNKNOWN_FIELD in message.encode()


def test_bytes_that_are_no_allocatable_answer_are_refused():
    with pytest.raises(ValueError, match=r"^not an answer"):
        AllocatableResponse(b"\x0a")
