"""The agent's metrics: every number of its counters is shown, and nothing that tenants choose."""

import asyncio
from dataclasses import fields
from pathlib import Path

import pytest

from bursar.adapters.node.server import CODE_NAMES
from bursar.adapters.telemetry.agent.families import AgentView, agent_families
from bursar.adapters.telemetry.agent.metrics import agent_metrics
from bursar.adapters.telemetry.agent.upstream import BOUNDS_S, MeasuredKubelet, UpstreamCounts
from bursar.adapters.telemetry.catalogue.agent import DEGRADED
from bursar.adapters.telemetry.exposition import exposition
from bursar.app.cluster.events.recorder import Drop
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.app.devices.ports import CallError, Method, Version
from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.inventory import Device, Inventory
from support.metrics.every_metric import Told
from support.metrics.printed_metrics import samples
from support.virtual_time import MachineClock, run

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "agent.md"


def a_view(**changed):
    known = {
        "is_serving": True,
        "code_names": CODE_NAMES,
        "calls": CallCounts(),
        "rate_limited": 0,
        "upstream": UpstreamCounts(),
        "proxy": ProxyCounts(),
        "pods": FreshnessCounts(),
        "pods_age_s": None,
        "failing_s": 0.0,
        "inventory": None,
    }
    return AgentView(**{**known, **changed})


def shown(view):
    return samples(exposition(agent_families(view)).decode())


def test_calls_are_shown_by_version_method_and_the_name_of_their_code():
    calls = CallCounts(under_way=2)
    calls.end(Version.V1, Method.LIST, 0, nanos=1_500_000_000, size=100)
    calls.end(Version.V1, Method.GET, 2, nanos=1, size=0)
    calls.end(Version.V1ALPHA1, Method.LIST, 99, nanos=1, size=5 << 20)
    found = shown(a_view(calls=calls, rate_limited=7))

    name = "bursar_pod_resources_requests_total"
    assert found[f'{name}{{version="v1",method="List",code="OK"}}'] == "1"
    assert found[f'{name}{{version="v1",method="Get",code="UNKNOWN"}}'] == "1"
    assert found[f'{name}{{version="v1alpha1",method="List",code="99"}}'] == "1"
    seconds = 'bursar_pod_resources_request_seconds_total{version="v1",method="List"}'
    assert found[seconds] == "1.5"
    assert found["bursar_pod_resources_requests_under_way"] == "2"
    assert found["bursar_pod_resources_rate_limited_total"] == "7"
    assert found["bursar_pod_resources_reply_bytes_max"] == str(5 << 20)
    assert found["bursar_pod_resources_long_replies_total"] == "1"


def test_problems_are_shown_by_kind_even_while_there_are_none():
    proxy = ProxyCounts(filled=12)
    proxy.problems[ProblemKind.CLAIMED_TWICE] = 4
    proxy.standing[ProblemKind.CLAIMED_TWICE] = 2
    found = shown(a_view(proxy=proxy))

    assert found['bursar_device_problems_total{kind="claimed-twice"}'] == "4"
    assert found['bursar_device_problems{kind="claimed-twice"}'] == "2"
    assert {
        f'bursar_device_problems{{kind="{kind.value}"}}' for kind in ProblemKind
    } <= found.keys()
    assert found["bursar_pod_resources_devices_added_total"] == "12"


@pytest.mark.parametrize("how", ["bare", "aged", "refused", "unreadable", "trimmed"])
def test_answers_that_are_not_whole_are_shown_by_how(how):
    found = shown(a_view(proxy=ProxyCounts(**{how: 3})))

    assert found[f'bursar_pod_resources_degraded_total{{how="{how}"}}'] == "3"
    assert sum(int(value) for key, value in found.items() if "_degraded_" in key) == 3


def test_every_counter_of_the_proxy_has_a_metric():
    """Who adds a counter has to show it."""
    proxy = ProxyCounts()
    for number, field in enumerate(fields(ProxyCounts), start=1000):
        if field.name in {"problems", "standing"}:
            getattr(proxy, field.name)[ProblemKind.NO_ID] = number
        else:
            setattr(proxy, field.name, number)
    found = shown(a_view(proxy=proxy))

    expected = {str(number) for number in range(1000, 1000 + len(fields(ProxyCounts)))}
    assert expected <= set(found.values())


def test_the_source_of_pods_shows_how_it_fares():
    pods = FreshnessCounts(reads=10, failures=3, misses=2, read_seconds=0.5)
    found = shown(a_view(pods=pods, pods_age_s=12.5, failing_s=11.0))

    assert found["bursar_pod_source_reads_total"] == "10"
    assert found["bursar_pod_source_failures_total"] == "3"
    assert found["bursar_pod_source_misses_total"] == "2"
    assert found["bursar_pod_source_read_seconds_total"] == "0.5"
    assert found["bursar_pod_source_age_seconds"] == "12.5"
    assert found["bursar_pod_source_failing_seconds"] == "11"
    assert "bursar_pod_source_age_seconds" not in shown(a_view())


def test_the_inventory_is_counted_by_kind_and_health():
    devices = (
        Device(kind="gpu", minor=0, id="GPU-0"),
        Device(kind="gpu", minor=1, id="GPU-1"),
        Device(kind="gpu", minor=2, id="GPU-2", is_healthy=False),
    )
    found = shown(a_view(inventory=Inventory(devices)))

    assert found['bursar_inventory_devices{kind="gpu",health="healthy"}'] == "2"
    assert found['bursar_inventory_devices{kind="gpu",health="unhealthy"}'] == "1"
    assert found["bursar_inventory_known"] == "1"
    assert shown(a_view())["bursar_inventory_known"] == "0"


def test_the_documentation_lists_every_kind_of_problem_and_of_incomplete_answer():
    page = PAGE.read_text()

    assert [kind.value for kind in ProblemKind if f"`{kind.value}`" not in page] == []
    assert [how for how in DEGRADED if f"| `{how}` |" not in page] == []


def test_events_and_the_process_are_shown_beside_them():
    text = agent_metrics(agent_families(a_view()), Told({Drop.REFUSED: 2}, 3)).decode()
    without = agent_metrics(agent_families(a_view()), None).decode()

    assert 'bursar_event_dropped_total{reason="REFUSED"} 2\n' in text
    assert "bursar_event_waiting 3\n" in text
    assert "process_resident_memory_bytes " in text
    assert "bursar_event" not in without


# ------------------------------------------------------------------ kubelet


class SlowKubelet:
    def __init__(self, clock, seconds, error=None):
        self._clock, self._seconds, self._error = clock, seconds, error

    async def call(self, _version, _method, _request, _within_s):
        await self._clock.sleep(self._seconds)
        if self._error is not None:
            raise self._error
        return b"answer"


def test_calls_to_kubelet_are_counted_and_timed():
    async def play():
        clock = MachineClock()
        measured = MeasuredKubelet(SlowKubelet(clock, 0.02), clock)
        for method in Method:
            assert await measured.call(Version.V1, method, b"", None) == b"answer"
        return measured.counts

    counts = run(play())
    found = shown(a_view(upstream=counts))

    labels = 'version="v1",method="{}",code="OK"'
    for method in Method:
        assert found[f"bursar_kubelet_calls_total{{{labels.format(method.value)}}}"] == "1"
    assert found["bursar_kubelet_call_seconds_count"] == "3"
    assert found['bursar_kubelet_call_seconds_bucket{le="0.025"}'] == "3"
    assert found['bursar_kubelet_call_seconds_bucket{le="0.01"}'] == "0"
    assert len(counts.by_duration) == len(BOUNDS_S) + 1


def test_calls_that_fail_or_are_given_up_are_counted_as_such():
    async def play():
        clock = MachineClock()
        refused = MeasuredKubelet(SlowKubelet(clock, 0, CallError(14, "no")), clock)
        with pytest.raises(CallError, match="no"):
            await refused.call(Version.V1, Method.GET, b"", None)
        slow = MeasuredKubelet(SlowKubelet(clock, 60), clock)
        call = asyncio.ensure_future(slow.call(Version.V1, Method.GET, b"", None))
        await clock.sleep(1)
        call.cancel()
        await asyncio.wait((call,))
        return refused.counts.ended, slow.counts.ended

    refused, given_up = run(play())

    assert refused == {(Version.V1, Method.GET, 14): 1}
    assert given_up == {(Version.V1, Method.GET, 1): 1}
