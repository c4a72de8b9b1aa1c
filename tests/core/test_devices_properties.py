"""Properties of devices that hold whatever annotations contain."""

import operator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.devices.additions import additions, allocatable_entries
from bursar.core.devices.allocation import Entry, ReportedContainer, ReportedPod, bare_id
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.compat import compat_additions
from bursar.core.devices.conflicts import claimed_twice
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import DeviceContainer, DevicePod, live_pods
from bursar.core.devices.resolve import Rules, Trust, holdings_by_pod
from bursar.core.devices.rows import NodeFacts, device_rows
from bursar.core.devices.source import KOORDINATOR, KindRule, Source

pytestmark = pytest.mark.slow

SOURCES = {
    "koordinator": KOORDINATOR,
    "hami": Source(
        name="hami",
        annotation="hami.io/vgpu-devices-allocated",
        kinds={"gpu": KindRule(resource="nvidia.com/gpu", percent=("nvidia.com/gpucores",))},
    ),
}
BOUNDED = settings(max_examples=100)
MOST_KINDS = st.sampled_from(["gpu"] * 4 + ["rdma"] * 2 + ["fpga", "tpu", ""])
SOUND_IDS = st.sampled_from(["GPU-0", "GPU-1", "GPU-1::1", "MIG-0", "pf", "vf-0", "vf-1"])
IDS = st.one_of(SOUND_IDS, SOUND_IDS, SOUND_IDS, st.just(""), st.text(max_size=3))
SELDOM = st.sampled_from([False] * 7 + [True])
ASKED = st.sampled_from(["nvidia.com/gpu", "koordinator.sh/gpu-core", "koordinator.sh/rdma"])
AMOUNTS = st.dictionaries(ASKED, st.sampled_from([-1, 0, 1, 2, 50, 100, 10**20]), max_size=3)
ASKS = st.dictionaries(ASKED, st.sampled_from([1, 2, 100, 10**20]), max_size=3)

SOURCE_NAMES = st.sampled_from(["koordinator"] * 4 + ["hami"] * 3 + ["x"])

wild = st.builds(
    Claim,
    kind=MOST_KINDS,
    device=IDS,
    minor=st.none() | st.integers(-1, 3),
    functions=st.just(()) | st.lists(IDS, max_size=2).map(tuple),
    is_extended=st.booleans(),
    amounts=AMOUNTS,
    container=st.sampled_from([""] * 4 + ["a", "b", "no such"]),
    container_index=st.sampled_from([None] * 4 + [-1, 0, 1, 2]),
    vendor=st.sampled_from(["", "", "nvidia", "huawei", "acme"]),
)
likely = st.builds(Claim, kind=st.sampled_from(["gpu", "rdma"]), device=SOUND_IDS, amounts=AMOUNTS)
claims = st.lists(likely | wild, min_size=1, max_size=5).map(tuple)
sidecars = st.builds(DeviceContainer, name=st.just("proxy"), asks=ASKS)
first = st.builds(DeviceContainer, name=st.just("a"), asks=ASKS)
second = st.builds(DeviceContainer, name=st.just("b"), asks=ASKS)
pods = st.builds(
    DevicePod,
    namespace=st.just("default"),
    name=st.sampled_from(["web", "web", "db"]),
    uid=st.sampled_from("123"),
    sidecars=st.lists(sidecars, max_size=1).map(tuple),
    containers=st.tuples(first) | st.tuples(first, second) | st.just(()),
    claims=st.lists(
        st.builds(Claims, source=SOURCE_NAMES, claims=claims),
        min_size=1,
        max_size=2,
    ).map(tuple),
    is_terminal=SELDOM,
    is_terminating=SELDOM,
)
lines = st.lists(
    st.builds(Entry, resource=ASKED, devices=st.lists(SOUND_IDS, max_size=3).map(tuple)), max_size=3
)
reports = st.builds(
    ReportedPod,
    namespace=st.just("default"),
    name=st.sampled_from(["web", "web", "db"]),
    containers=st.lists(
        st.builds(
            ReportedContainer,
            name=st.sampled_from(["proxy", "a", "b"]),
            entries=st.just(()) | lines.map(tuple),
        ),
        max_size=3,
        unique_by=lambda each: each.name,
        min_size=1,
    ).map(tuple),
)
USUAL = Inventory(
    (
        Device(kind="gpu", minor=0, id="GPU-0", numa=0, vendor="nvidia"),
        Device(kind="gpu", minor=1, id="GPU-1"),
        Device(kind="rdma", minor=0, id="pf", functions=(Function(address="vf-0"),)),
    )
)
inventories = st.sampled_from([None, USUAL]) | st.lists(
    st.builds(
        Device,
        kind=st.sampled_from(["gpu", "rdma"]),
        minor=st.integers(0, 2),
        id=IDS.map(bare_id),
        is_healthy=SELDOM.map(operator.not_),
        vendor=st.sampled_from(["", "nvidia", "huawei"]),
        functions=st.just(())
        | st.lists(st.builds(Function, address=IDS.map(bare_id)), max_size=2).map(tuple),
        amounts=AMOUNTS,
    ),
    max_size=3,
).map(lambda devices: Inventory(tuple(devices)))
rules = st.builds(
    Rules,
    trust=st.sampled_from(Trust),
    devices_max=st.sampled_from([0, 1, 3, 256]),
    numbers_shares=st.booleans(),
)


@pytest.mark.slow
@BOUNDED
@given(pods, reports, inventories, rules)
def test_additions_are_sound(pod, report, inventory, rule):
    reported = replace(report, name=pod.name)
    (holdings,) = holdings_by_pod([pod], SOURCES, inventory, rule).values()
    added = additions(holdings, reported)
    if added is None:
        return
    told = [
        (entry.resource, bare_id(device))
        for container in reported.containers
        for entry in container.entries
        for device in entry.devices
    ]
    new = [
        (entry.resource, bare_id(device))
        for entries in added.entries.values()
        for entry in entries
        for device in entry.devices
    ]

    assert not added.sorts
    assert new
    assert len(new) == len(set(new)) <= rule.devices_max
    assert not set(new) & set(told)
    assert set(added.entries) <= {container.name for container in reported.containers}
    for entries in added.entries.values():
        assert list(entries) == sorted(entries, key=lambda entry: (entry.resource, entry.devices))
        for entry in entries:
            assert entry.resource
            assert len(entry.devices) == 1
            assert entry.devices[0].isprintable()


@BOUNDED
@given(pods, pods, inventories, st.sampled_from(Trust))
def test_nobody_else_is_told_anything_else_because_of_a_hostile_pod(pod, hostile, inventory, trust):
    rule = Rules(needs_inventory=False, trust=trust)
    other = replace(hostile, name="hostile")
    alone = holdings_by_pod([pod], SOURCES, inventory, rule)
    beside = holdings_by_pod([other, pod], SOURCES, inventory, rule)

    assert {key: beside[key] for key in alone} == alone


@BOUNDED
@given(st.lists(pods, max_size=3), inventories, rules)
def test_what_is_held_and_healthy_is_allocatable_exactly_once(given_pods, inventory, rule):
    known = inventory or Inventory()
    holdings = list(holdings_by_pod(given_pods, SOURCES, known, rule).values())
    entries = allocatable_entries(known, SOURCES, holdings, ())
    keys = [(entry.resource, *entry.devices) for entry in entries]
    sick = {each.id for each in known.devices if not each.is_healthy} | {
        function.address
        for each in known.devices
        if not each.is_healthy
        for function in each.functions
    }

    assert keys == sorted(set(keys))
    assert all(all(key) for key in keys)
    for pod in holdings:
        for each in pod.allocations:
            is_ours = each.source == "koordinator" and not pod.has_ended
            if is_ours and not {each.device, each.parent} & sick:
                assert each.device in {device for _, device in keys}


@BOUNDED
@given(st.lists(pods, max_size=4), st.randoms())
def test_the_order_of_pods_does_not_matter(given_pods, random):
    distinct = list({(pod.name, pod.uid): pod for pod in given_pods}.values())
    shuffled = random.sample(distinct, len(distinct))

    assert live_pods(distinct) == live_pods(shuffled)


@BOUNDED
@given(st.lists(pods, max_size=3), st.lists(reports, max_size=2), inventories, rules)
def test_conflicts_and_the_register_speak_of_everybody_once(given_pods, told, inventory, rule):
    holdings = tuple(holdings_by_pod(given_pods, SOURCES, inventory, rule).values())
    reported = tuple({each.key: each for each in told}.values())
    rows = device_rows(
        NodeFacts(
            node="n",
            pods=tuple(given_pods),
            holdings=holdings,
            reported=reported,
            inventory=inventory,
        ),
        SOURCES,
    )
    keys = [(row.namespace, row.pod, row.resource, row.device) for row in rows]
    twice = claimed_twice(holdings, reported)

    assert keys == sorted(set(keys))
    assert len(twice) != 1
    assert set(twice) <= {key[:2] for key in keys}
    texts = [text for row in rows for text in row.disagreements]
    texts += [problem.text for problems in twice.values() for problem in problems]
    assert all(text.isprintable() for text in texts)


@BOUNDED
@given(pods, reports)
def test_compat_names_only_the_first_container_and_every_kind_once(pod, reported):
    for said in pod.claims:
        added = compat_additions(said, reported)

        assert added is not None
        assert added.sorts
        assert list(added.entries) == [reported.containers[0].name]
        assert len(added.entries[reported.containers[0].name]) == len(
            {claim.kind for claim in said.claims}
        )
