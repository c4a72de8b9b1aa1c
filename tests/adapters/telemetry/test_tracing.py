"""Traces over OTLP: what a real receiver gets, and what a bad one cannot do."""

import asyncio
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest

from bursar.adapters.telemetry.tracing.context import parse_context
from bursar.adapters.telemetry.tracing.exporter import (
    BATCH_MAX,
    QUEUE_MAX,
    OtlpSettings,
    OtlpTracer,
)
from bursar.app.tracing import NAMESPACE, POD, Drop, Span
from support.collector import a_collector, attributes
from support.until import until

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{}"
SPAN = Span(
    name="release pod",
    began_s=1_800_000_000.25,
    ended_s=1_800_000_001.5,
    attributes={"bursar.exempt": False, "count": 3, NAMESPACE: "blue", POD: "p"},
    steps=(
        Span(
            name="remove gate",
            began_s=1_800_000_001.0,
            ended_s=1_800_000_001.5,
            problem="unanswered",
        ),
    ),
)


@pytest.fixture
def collector():
    with a_collector() as found:
        yield found


def a_tracer(url, **settings):
    resource = {"service.name": "aaq-controller"}
    return OtlpTracer(
        OtlpSettings(endpoint=url, resource=resource, batch_seconds=0.01, **settings),
        Random(1),  # noqa: S311 - ids are no secrets
    )


@asynccontextmanager
async def running(tracer):
    task = asyncio.create_task(tracer.run())
    try:
        yield tracer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_receiver_gets_the_span_with_its_steps(collector):
    tracer = a_tracer(collector.url, has_names=True, headers=(("api-key", "s3cret"),))
    async with running(tracer):
        tracer.record(SPAN)
        await until(lambda: tracer.counts.exported, "it was sent")

    whole, step = collector.spans()
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["content-type"] == "application/x-protobuf"
    assert collector.headers[0]["api-key"] == "s3cret"
    assert (whole.name, step.name) == ("release pod", "remove gate")
    assert (step.trace_id, step.parent_span_id) == (whole.trace_id, whole.span_id)
    assert (len(whole.trace_id), whole.parent_span_id) == (16, b"")
    assert whole.start_time_unix_nano == 1_800_000_000_250_000_000
    assert whole.end_time_unix_nano == 1_800_000_001_500_000_000
    assert (step.status.code, step.status.message) == (2, "unanswered")
    assert whole.status.code == 0
    assert attributes(whole) == {
        "bursar.exempt": False,
        "count": 3,
        "k8s.namespace.name": "blue",
        "k8s.pod.name": "p",
    }
    resource = collector.requests[0].resource_spans[0].resource
    assert attributes(resource) == {"service.name": "aaq-controller"}


async def test_names_that_users_gave_are_sent_only_on_request(collector):
    tracer = a_tracer(collector.url)
    async with running(tracer):
        tracer.record(SPAN)
        await until(lambda: tracer.counts.exported, "it was sent")

    assert attributes(collector.spans()[0]) == {"bursar.exempt": False, "count": 3}


@pytest.mark.parametrize(("flags", "is_sent"), [("01", True), ("00", False)])
async def test_the_trace_of_a_caller_goes_on_as_the_caller_decided(collector, flags, is_sent):
    tracer = a_tracer(collector.url, ratio=0.0)
    async with running(tracer):
        tracer.record(Span(name="own", began_s=1, ended_s=2))
        tracer.record(Span(name="review", began_s=1, ended_s=2, parent=HEADER.format(flags)))
        tracer.record(Span(name="last", began_s=1, ended_s=2, parent=HEADER.format("01")))
        await until(lambda: collector.named("last"), "the last was sent")

    found = collector.named("review")
    assert bool(found) is is_sent
    assert not collector.named("own")
    for each in found:
        assert each.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
        assert each.parent_span_id.hex() == "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "x",
        HEADER.format("zz"),
        HEADER.format("01").upper(),
        "ff" + HEADER.format("01")[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        HEADER.format("01") + "\n",
    ],
)
def test_a_header_of_a_stranger_that_is_no_context_is_ignored(header):
    assert parse_context(header) is None


# ------------------------------------------------------------------ bad collectors


async def test_a_collector_that_hangs_delays_nobody_and_loses_counted_spans(collector):
    collector.released.clear()
    tracer = a_tracer(collector.url, send_seconds=0.2)
    async with running(tracer):
        for _ in range(2 * QUEUE_MAX):
            tracer.record(SPAN)
        assert tracer.counts.dropped[Drop.QUEUE_FULL] >= QUEUE_MAX
        await until(lambda: tracer.counts.dropped[Drop.UNREACHABLE], "a batch was given up")
        collector.released.set()
        await until(lambda: tracer.counts.exported, "it is used again when it answers")

    assert len(tracer._queue) < QUEUE_MAX


async def test_a_collector_that_is_not_there_is_counted(collector):
    tracer = a_tracer("http://127.0.0.1:1")
    async with running(tracer):
        tracer.record(SPAN)
        await until(lambda: tracer.counts.dropped[Drop.UNREACHABLE] == 1, "it was given up")
    assert collector.spans() == []


@pytest.mark.parametrize(
    ("behaviour", "exported"),
    [({"status": 503}, 0), ({"garbage": b"\xff\xff"}, 0), ({"rejected": 1}, 1)],
    ids=["error", "garbage", "a part"],
)
async def test_spans_that_a_collector_does_not_take_are_counted(collector, behaviour, exported):
    vars(collector).update(behaviour)
    tracer = a_tracer(collector.url)
    tracer.record(SPAN)
    tracer.record(SPAN)
    async with running(tracer):
        await until(lambda: tracer.counts.dropped[Drop.REFUSED], "it was refused")

    assert tracer.counts.dropped[Drop.REFUSED] == 2 - exported
    assert tracer.counts.exported == exported


async def test_a_collector_that_rejects_less_than_nothing_changes_no_count(collector):
    collector.rejected = -5
    tracer = a_tracer(collector.url)
    tracer.record(SPAN)
    async with running(tracer):
        await until(lambda: tracer.counts.exported, "it was sent")

    assert (tracer.counts.exported, tracer.counts.dropped[Drop.REFUSED]) == (1, 0)


async def test_large_numbers_of_spans_are_sent_in_batches(collector):
    tracer = a_tracer(collector.url)
    for _ in range(BATCH_MAX + 1):
        tracer.record(SPAN)
    async with running(tracer):
        await until(lambda: tracer.counts.exported == BATCH_MAX + 1, "all were sent")

    assert len(collector.requests) == 2


@pytest.mark.parametrize("url", ["collector:4318", "ftp://collector", "http://"])
def test_an_endpoint_that_is_no_url_is_refused(url):
    with pytest.raises(ValueError, match="http"):
        a_tracer(url)
