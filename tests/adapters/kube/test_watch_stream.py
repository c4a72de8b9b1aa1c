"""Watch streams in chunks of any size, and with invalid content."""

import asyncio
import contextlib
import gc
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.adapters.kube.transport import Limits
from bursar.adapters.kube.watch_stream import LineSplitter, LineTooLongError
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import (
    BusyError,
    EventKind,
    ExpiredError,
    Query,
    UnauthorizedError,
    UnavailableError,
)
from support.cluster.access import CountedTokens, HastyClock, talk
from support.faults.scripted_server import (
    STREAM_HEAD,
    answer,
    chatter,
    failure,
    hang_up,
    http_chunk,
    silence,
    stream,
)
from support.until import PATIENCE_SECONDS


def pod_at(version: object, **more: object) -> dict[str, object]:
    return {"kind": "Pod", "metadata": {"name": "web", "resourceVersion": str(version), **more}}


def line(type_: str, body: object) -> bytes:
    """An event as the API server writes it: no spaces, type first."""
    return json.dumps({"type": type_, "object": body}, separators=(",", ":")).encode() + b"\n"


ADDED = line("ADDED", pod_at(1))
TRICKY = {"resourceVersion": "2", "type": "ERROR"}
STATUS = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
GONE = STATUS | {"code": 410, "reason": "Expired", "message": "old"}


async def seen(client, **arguments) -> list[tuple[str, str]]:
    return [
        (event.kind.name, event.resource_version) async for event in client.watch(PODS, **arguments)
    ]


# ------------------------------------------------------------------ lines


@given(lines=st.lists(st.binary().map(lambda b: b.replace(b"\n", b""))), cuts=st.data())
def test_lines_are_the_same_however_they_are_cut(lines, cuts):
    rest = b"".join(text + b"\n" for text in lines)
    splitter = LineSplitter(bytes_max=2**20)
    found = []
    while rest:
        size = cuts.draw(st.integers(1, len(rest)))
        found += splitter.feed(rest[:size])
        rest = rest[size:]

    assert found == lines
    assert splitter.pending_bytes == 0


def test_a_line_may_be_as_long_as_the_bound_and_no_longer():
    splitter = LineSplitter(bytes_max=10)

    assert splitter.feed(b"01234") + splitter.feed(b"56789\nab") == [b"0123456789"]
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x" * 9)


# ------------------------------------------------------------------ events


async def test_events_arrive_whole_however_they_are_cut():
    data = ADDED + line("MODIFIED", pod_at(2)) + b"\n" + line("DELETED", pod_at(3))
    for size in (1, 7, len(ADDED), len(data)):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        async with talk(stream(*pieces)) as (_, client):
            assert await seen(client) == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "3")]


@pytest.mark.parametrize(
    "text",
    [
        b'{ "type" : "ADDED", "object": {"metadata":{"resourceVersion":"1"}} }',
        b'{"object":{"metadata":{"resourceVersion":"1"}},"type":"ADDED"}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}},"more":[{}]}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}\r',
        line("ADDED", pod_at(1, labels=TRICKY, annotations={"a": json.dumps(TRICKY)})).rstrip(),
    ],
)
async def test_json_of_another_spelling_is_decoded_alike(text):
    async with talk(stream(text + b"\n")) as (_, client):
        events = [event async for event in client.watch(PODS)]

    assert [(event.kind, event.resource_version) for event in events] == [(EventKind.ADDED, "1")]
    assert json.loads(events[0].body)["metadata"]["resourceVersion"] == "1"


async def test_a_bookmark_says_whether_the_initial_events_are_over():
    last = line("BOOKMARK", pod_at(2, annotations={"k8s.io/initial-events-end": "true"}))
    later = line("BOOKMARK", pod_at(3))
    async with talk(stream(ADDED, last, later)) as (server, client):
        events = [event async for event in client.watch(PODS, send_initial=True)]

    assert [event.ends_initial for event in events] == [False, True, False]
    [received] = server.received
    sent = parse_qs(urlsplit(received.target).query)
    assert sent["sendInitialEvents"] == ["true"]
    assert sent["resourceVersionMatch"] == ["NotOlderThan"]
    assert sent["allowWatchBookmarks"] == ["true"]
    assert 300 <= int(sent["timeoutSeconds"][0]) <= 600


async def test_a_watch_sends_its_parameters():
    async with talk(stream()) as (server, client):
        query = Query(namespace="a", label_selector="b=c")
        await seen(client, query=query, resource_version="9", timeout_seconds=5)

    [received] = server.received
    assert received.target == (
        "/api/v1/namespaces/a/pods?labelSelector=b%3Dc&watch=true&allowWatchBookmarks=true"
        "&timeoutSeconds=5&resourceVersion=9"
    )


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (GONE, ExpiredError),
        ({**GONE, "reason": "Gone"}, ExpiredError),
        (STATUS | {"reason": "Expired"}, ExpiredError),
        (STATUS | {"code": 500, "reason": "InternalError"}, UnavailableError),
        (STATUS | {"code": 429, "reason": "TooManyRequests"}, BusyError),
        ({"kind": "Status", "code": 410, "reason": "Expired"}, UnavailableError),
        ({"kind": "Pod", "metadata": {"resourceVersion": "1"}}, UnavailableError),
        ({}, UnavailableError),
    ],
)
async def test_an_error_in_the_stream_is_raised_after_the_events_before_it(status, kind):
    async with talk(stream(ADDED, line("ERROR", status), ADDED)) as (_, client):
        watch = client.watch(PODS)
        first = await anext(watch)
        with pytest.raises(kind) as caught:
            await anext(watch)

    assert first.resource_version == "1"
    assert type(caught.value) is kind
    assert caught.value.resource == "pods"


@pytest.mark.parametrize(
    "text",
    [
        line("ADDED", GONE),
        line("ADDED", {}),
        line("", pod_at(1)),
        line("INVENTED", pod_at(1)),
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":"hunter2"}\n',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}\n',
        b"hunter2\n",
        b'{"type":"ADDED","object":{"deep":' + b"[" * 9000 + b"\n",
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"\xff"}}}\n',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":[]}}}\n',
    ],
)
async def test_a_line_that_is_not_an_event_is_an_error(text):
    async with talk(stream(text)) as (_, client):
        with pytest.raises(UnavailableError) as caught:
            await seen(client)

    assert "hunter2" not in str(caught.value)


async def test_a_410_before_the_stream_is_the_same_error():
    async with talk(failure(410, "Expired", "too old")) as (_, client):
        with pytest.raises(ExpiredError, match="too old"):
            await seen(client, resource_version="1")


async def test_opening_is_retried_like_any_read():
    busy = failure(429, "TooManyRequests", Retry_After="1")
    clock = HastyClock()
    async with talk(busy, stream(ADDED), clock=clock) as (_, client):
        assert await seen(client) == [("ADDED", "1")]

    assert len(clock.sleeps) == 1


async def test_opening_with_rejected_credentials_renews_them_once():
    tokens = CountedTokens()
    async with talk(failure(401, "Unauthorized"), credentials=tokens) as (server, client):
        with pytest.raises(UnauthorizedError):
            await seen(client)

    assert len(server.received) == 2


@pytest.mark.parametrize("cut", [b"", ADDED[:20]])
async def test_a_connection_lost_means_unavailable(cut):
    lost = hang_up(STREAM_HEAD + http_chunk(ADDED) + (http_chunk(cut) if cut else b""))
    async with talk(lost) as (_, client):
        watch = client.watch(PODS)
        await anext(watch)
        with pytest.raises(UnavailableError, match="closed inside the answer"):
            await anext(watch)


async def test_a_stream_that_ends_inside_an_event_means_unavailable():
    async with talk(stream(ADDED, ADDED[:20])) as (_, client):
        with pytest.raises(UnavailableError, match="ended inside an event"):
            await seen(client)


async def test_a_response_that_is_not_json_means_unavailable():
    async with talk(answer(200, "<html>")) as (_, client):
        with pytest.raises(UnavailableError, match="not JSON"):
            await seen(client)


async def test_an_event_beyond_the_bound_names_the_bound():
    limits = Limits(line_bytes_max=1000)
    async with talk(stream(*[b"x" * 400] * 4), limits=limits) as (_, client):
        with pytest.raises(UnavailableError, match="larger than 1000 bytes"):
            await seen(client)


async def test_an_event_of_several_megabytes_passes():
    large = line("ADDED", pod_at(1, annotations={"a": "x" * 5_000_000}))
    async with talk(stream(large)) as (_, client):
        assert await seen(client) == [("ADDED", "1")]


async def test_a_silent_watch_times_out():
    async with talk(stream(ADDED, then=silence)) as (_, client):
        watch = client.watch(PODS, idle_seconds=1)
        await anext(watch)
        with pytest.raises(UnavailableError, match="silent for 1 s"):
            await anext(watch)


async def test_a_watch_without_a_response_times_out():
    async with talk(silence, limits=Limits(request_seconds=0.05)) as (_, client):
        with pytest.raises(UnavailableError, match="no answer"):
            await seen(client)


# ------------------------------------------------------------------ pace and ending


async def test_a_slow_consumer_slows_the_server_down():
    """The bytes in transit are bounded by buffers, not by the length of the stream."""
    written = 0
    event = line("MODIFIED", pod_at(1, annotations={"a": "x" * 100_000}))

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        for _ in range(1000):
            writer.write(http_chunk(event))
            await writer.drain()
            written += 1

    async with talk(stream(then=flood)) as (_, client):
        async with contextlib.aclosing(client.watch(PODS)) as watch:
            await anext(watch)
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)

        assert written < 300


async def test_leaving_a_watch_closes_its_connection():
    async with talk(stream(ADDED, then=chatter(ADDED))) as (server, client):
        async with contextlib.aclosing(client.watch(PODS)) as watch:
            await anext(watch)
            await anext(watch)
            while_watching = server.open_connections
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.is_left.wait()

        assert (while_watching, server.open_connections) == (1, 0)


async def test_a_watch_cancelled_while_it_waits_closes_its_connection():
    async with talk(stream(ADDED, then=silence)) as (_, client):
        task = asyncio.ensure_future(seen(client))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert client._transport._http._open == set()


async def test_a_watch_that_is_not_closed_leaves_no_warning():
    async with talk(stream(ADDED, ADDED, then=silence)) as (_, client):
        async for _ in client.watch(PODS):
            break
        gc.collect()
        await asyncio.sleep(0.01)

        assert client._transport._http._open == set()


async def test_watches_do_not_take_the_connections_of_requests():
    script = [stream(ADDED, then=silence)] * 5
    listing = answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})
    async with (
        talk(*script, listing, limits=Limits(in_flight_max=2)) as (_, client),
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(5):
            watch = await stack.enter_async_context(contextlib.aclosing(client.watch(PODS)))
            await anext(watch)

        assert client.limiter.in_flight == 0
        assert (await client.list(PODS)).resource_version == "1"
