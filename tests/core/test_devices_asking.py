"""How many devices a pod gets, and which container gets those of an init container."""

from dataclasses import replace

import pytest

from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.claim import Claim
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.resolve import Rules, Trust, resolve
from support.device_notation import HAMI, SOURCES, a_container, a_gpu, gpu_pod

LOOSE = Rules(needs_inventory=False)
ANY = Rules(needs_inventory=False, trust=Trust.ANY)
NODE = Inventory((Device(kind="gpu", minor=1, id="GPU-1", vendor="nvidia"),))


def held(pod):
    holdings = resolve(pod, SOURCES, None, Rules(needs_inventory=False))
    assert holdings.problems == ()
    return [(each.container, each.resource, each.device) for each in holdings.allocations]


def bound_for(*containers, kind="gpu", source="koordinator", rules=LOOSE, **fields):
    """How many of six devices a pod is given."""
    claims = [Claim(kind=kind, device=f"GPU-{number}") for number in range(6)]
    pod = gpu_pod(*claims, containers=containers or (a_container(),), source=source, **fields)
    return len(resolve(pod, SOURCES, None, rules).allocations)


def test_a_pod_is_given_no_more_devices_than_it_asks_for():
    greedy = gpu_pod(*(a_gpu(f"GPU-{n}") for n in range(8)), containers=(a_container(gpu=1),))

    holdings = resolve(greedy, SOURCES, None, Rules(needs_inventory=False))

    assert [each.device for each in holdings.allocations] == ["GPU-0"]
    assert [(each.kind, each.text) for each in holdings.problems] == [
        (
            ProblemKind.MORE_THAN_ASKED,
            "gpu: 'GPU-1' is more than the 1 that the pod asks for, and 6 more",
        )
    ]
    assert len(resolve(greedy, SOURCES, None, ANY).allocations) == 8


@pytest.mark.parametrize(
    ("containers", "count"),
    [
        ([a_container(gpu=2)], 2),
        ([a_container("a", gpu=2), a_container("b", gpu=1)], 3),
        ([a_container(percent=400)], 4),
        ([a_container(percent=50)], 1),
        ([a_container("a", percent=50), a_container("b", percent=50)], 1),
        ([a_container("a", percent=100), a_container("b", percent=100)], 2),
        ([a_container(core=200, ratio=200)], 2),
        ([a_container(ratio=300)], 3),
        ([a_container(core=60, memory=8 * 2**30)], 1),
        ([a_container(memory=80 * 2**30)], 1),
        ([a_container(npu=8)], 1),
        ([a_container(shared=2, core=100, memory=16 * 2**30)], 2),
        ([a_container(shared=2, ratio=100)], 2),
    ],
)
def test_koordinator_gives_as_many_gpus_as_all_containers_ask_for(containers, count):
    assert bound_for(*containers) == count


def test_the_most_that_a_pod_asks_for_at_any_one_time_is_the_bound():
    setup = replace(a_container("setup", gpu=2), sidecars_before=1)
    sidecars = (a_container("mesh", gpu=1), a_container("log", gpu=1))

    assert bound_for(init_containers=(setup,)) == 2
    assert bound_for(init_containers=(setup, setup), sidecars=sidecars) == 3
    assert bound_for(a_container(gpu=3), init_containers=(setup,), sidecars=sidecars) == 5


def test_nics_may_be_more_than_a_pod_asks_for():
    """One beside each GPU, or all of a node: that is for the scheduler to decide."""
    assert bound_for(a_container(rdma=1), kind="rdma") == 6


def test_other_sources_are_bound_by_names_that_count_devices():
    assert bound_for(a_container(gpu=2), source="hami") == 2
    assert bound_for(a_container(), source="hami", rules=ANY) == 6


def test_percent_of_each_device_are_no_bound():
    loose = replace(HAMI, kinds={"gpu": replace(HAMI.kinds["gpu"], counted=())})
    pod = gpu_pod(a_gpu("GPU-0"), a_gpu("GPU-1"), containers=(a_container(gpu=2),), source="hami")

    assert len(resolve(pod, {"hami": loose}, None, Rules(needs_inventory=False)).allocations) == 2


def test_functions_are_counted_and_a_device_named_again_is_not():
    functions = a_gpu("", functions=("GPU-0", "GPU-1", "GPU-2"))
    twice = [a_gpu(amounts={"koordinator.sh/gpu-core": 30})] * 2
    asks = (a_container(gpu=1),)

    given = resolve(
        gpu_pod(functions, containers=asks), SOURCES, None, Rules(needs_inventory=False)
    ).allocations

    assert [each.device for each in given] == ["GPU-0"]
    assert held(gpu_pod(*twice, containers=asks)) == [("main", "nvidia.com/gpu", "GPU-0")]


def test_what_is_not_on_the_node_takes_nothing_away_from_what_is():
    pod = gpu_pod(a_gpu("GPU-9"), a_gpu("GPU-1"), containers=(a_container(gpu=1),))

    assert [
        each.device
        for each in resolve(pod, SOURCES, NODE, Rules(needs_inventory=False)).allocations
    ] == ["GPU-1"]


# ------------------------------------------------------------------ init containers


def test_what_an_init_container_asks_for_goes_to_the_first_app_container():
    """It ends before the others begin, and kubelet's clients are never told of it."""
    pod = gpu_pod(
        a_gpu(), containers=(a_container(),), init_containers=(a_container("prep", gpu=1),)
    )

    assert held(pod) == [("main", "nvidia.com/gpu", "GPU-0")]


def test_the_source_may_name_an_init_container():
    prep = (a_container("prep", gpu=1),)
    pod = gpu_pod(a_gpu(container="prep"), containers=(a_container(),), init_containers=prep)

    assert held(pod) == [("prep", "nvidia.com/gpu", "GPU-0")]
