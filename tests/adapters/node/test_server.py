"""The agent's socket: kubelet's methods, kubelet's errors for others, and an orderly end."""

import asyncio
from random import Random

import grpc
import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.adapters.node.server import PodResourcesServer, ServingLimits, cancelled_code
from bursar.adapters.node.socket_file import SocketFileError, SocketPlace
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.ports import CallError, Method, Version
from support.devices.scripted_kubelet import Echo, serving
from support.until import PATIENCE_SECONDS, until


async def ask(path, method, request=b""):
    """Code and text of a call by its full name."""
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        try:
            return 0, await channel.unary_unary(method)(request)
        except grpc.aio.AioRpcError as error:
            return error.code().value[0], error.details()


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("/v1.PodResourcesLister/Watch", "unknown method Watch for service v1.PodResourcesLister"),
        (
            "/v1alpha1.PodResourcesLister/Get",
            "unknown method Get for service v1alpha1.PodResourcesLister",
        ),
        ("/v2.PodResourcesLister/List", "unknown service v2.PodResourcesLister"),
        ("/grpc.health.v1.Health/Check", "unknown service grpc.health.v1.Health"),
    ],
)
async def test_what_kubelet_does_not_have_is_refused_in_its_words(tmp_path, method, text):
    path = tmp_path / "kubelet.sock"
    async with serving(Echo(), path):
        assert await ask(path, method) == (12, text)


async def test_stream_to_a_method_that_is_not_there_is_refused_before_anything_is_sent(tmp_path):
    path = tmp_path / "kubelet.sock"
    async with serving(Echo(), path), grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.stream_stream("/v1.PodResourcesLister/WatchPods")()
        async with asyncio.timeout(PATIENCE_SECONDS):
            code = await call.code()

    assert code is grpc.StatusCode.UNIMPLEMENTED


async def test_every_call_is_counted_by_version_method_and_code(tmp_path):
    path, echo, counts = tmp_path / "kubelet.sock", Echo(), CallCounts()
    async with serving(echo, path, counts=counts), KubeletSocket(str(path)) as kubelet:
        await kubelet.call(Version.V1, Method.LIST, b"", None)
        await kubelet.call(Version.V1, Method.LIST, b"12345", None)
        await kubelet.call(Version.V1ALPHA1, Method.LIST, b"", None)
        echo.error = CallError(2, "not found")
        with pytest.raises(CallError):
            await kubelet.call(Version.V1, Method.GET, b"", None)
        echo.error, echo.hold = None, asyncio.Event()

        async def is_cut_off() -> bool:
            with pytest.raises(CallError):
                await kubelet.call(Version.V1, Method.ALLOCATABLE, b"", 0.05)
            return any(method is Method.ALLOCATABLE for _, method, _ in counts.ended)

        # On a busy machine a deadline may pass before the server has the call.
        await until(is_cut_off, "a call reaches the server, and is cut off there")
        await until(lambda: counts.under_way == 0)
        echo.under_way.clear()
        caller = asyncio.create_task(kubelet.call(Version.V1, Method.GET, b"", None))
        await until(echo.under_way.is_set)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await until(lambda: counts.under_way == 0)

    # A busy server gets the call late, and so cannot tell the deadline from a cancellation.
    cut_off = [counts.ended.pop((Version.V1, Method.ALLOCATABLE, code), 0) for code in (1, 4)]
    assert sum(cut_off) >= 1
    assert counts.ended == {
        (Version.V1, Method.LIST, 0): 2,
        (Version.V1ALPHA1, Method.LIST, 0): 1,
        (Version.V1, Method.GET, 2): 1,
        (Version.V1, Method.GET, 1): 1,
    }
    assert counts.reply_bytes_max == len(b"v1alpha1 List:")
    assert counts.nanos[Version.V1, Method.ALLOCATABLE] > 0


@pytest.mark.parametrize(
    ("within_s", "left_s", "code"),
    [(None, None, 1), (1.0, 0.5, 1), (1.0, 0.02, 4), (1.0, -0.1, 4), (0.05, 0.0, 4)],
)
def test_a_call_cancelled_at_its_deadline_counts_as_one_that_took_too_long(within_s, left_s, code):
    assert cancelled_code(within_s, left_s) == code


async def test_answers_longer_than_clients_usually_take_are_sent_and_counted(tmp_path):
    path, echo, counts = tmp_path / "kubelet.sock", Echo(), CallCounts()
    echo.padding = b"x" * (20 * 2**20)
    async with serving(echo, path, counts=counts), KubeletSocket(str(path)) as kubelet:
        assert len(await kubelet.call(Version.V1, Method.GET, b"", None)) > 20 * 2**20
        # A client of the usual kind refuses it by itself.
        assert (await ask(path, "/v1.PodResourcesLister/Get"))[0] == 8

    assert counts.long_replies == 2


async def test_deadline_of_the_client_is_passed_on(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    async with serving(echo, path), KubeletSocket(str(path)) as kubelet:
        await kubelet.call(Version.V1, Method.LIST, b"", 700)
        await ask(path, "/v1.PodResourcesLister/List")

    assert echo.within_s[0] is not None
    assert 350 < echo.within_s[0] < 750
    assert echo.within_s[1] is None


async def is_refused(path) -> bool:
    async with KubeletSocket(str(path)) as kubelet:
        try:
            await kubelet.call(Version.V1, Method.LIST, b"", 0.5)
        except CallError as error:
            return error.code == 14
    return False


async def test_end_answers_what_was_asked_and_leaves_the_file(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    async with KubeletSocket(str(path)) as kubelet:
        async with serving(echo, path) as server:
            asked = asyncio.create_task(kubelet.call(Version.V1, Method.LIST, b"", None))
            await until(echo.under_way.is_set)
            ending = asyncio.create_task(server.stop())
            await until(lambda: is_refused(path), "no more calls are accepted")
            echo.hold.set()
            await ending
            answer = await asked
        with pytest.raises(CallError) as refused:
            await kubelet.call(Version.V1, Method.LIST, b"", None)

    assert answer == b"v1 List:"
    assert refused.value.code == 14
    assert path.is_socket()


async def test_end_does_not_wait_for_ever(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    limits = ServingLimits(finish_s=0.05)
    async with KubeletSocket(str(path)) as kubelet:
        async with serving(echo, path, limits=limits):
            asked = asyncio.create_task(kubelet.call(Version.V1, Method.LIST, b"", None))
            await until(echo.under_way.is_set)
        with pytest.raises(CallError):
            await asked

    assert echo.left == 1


async def test_new_server_takes_over_the_name_while_clients_keep_asking(tmp_path):
    """A client never finds the name missing; Multus would go on without devices."""
    path = tmp_path / "kubelet.sock"
    missing = asked = 0
    is_over = False

    async def look():
        nonlocal missing, asked
        while not is_over:
            missing += not path.exists()
            asked += 1
            await asyncio.sleep(0)

    async with serving(Echo(), path):
        looking = asyncio.create_task(look())
    for _ in range(10):
        async with serving(Echo(), path):
            assert (await ask(path, "/v1.PodResourcesLister/List"))[0] == 0
    is_over = True
    await looking

    assert asked > 10
    assert missing == 0


async def test_more_calls_at_once_than_allowed_are_refused(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    limits = ServingLimits(calls_max=2, finish_s=0.05)
    async with serving(echo, path, limits=limits), KubeletSocket(str(path)) as kubelet:
        held = [
            asyncio.create_task(kubelet.call(Version.V1, Method.GET, b"", None)) for _ in range(2)
        ]
        await until(lambda: len(echo.within_s) == 2)
        with pytest.raises(CallError) as refused:
            await kubelet.call(Version.V1, Method.GET, b"", None)
        echo.hold.set()
        await asyncio.gather(*held)

    assert refused.value.code == 8


async def test_noise_on_one_connection_harms_no_other(tmp_path):
    path = tmp_path / "kubelet.sock"
    random = Random(6)  # noqa: S311 - a seed, not a secret
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    async with serving(Echo(), path), KubeletSocket(str(path)) as kubelet:
        for n in range(60):
            _, writer = await asyncio.open_unix_connection(str(path))
            noise = random.randbytes(random.randrange(1, 3000))
            writer.write((preface if n % 2 else b"") + noise)
            if n % 3:
                writer.close()
            assert await kubelet.call(Version.V1, Method.LIST, b"", 10) == b"v1 List:"
            writer.close()


async def test_place_that_cannot_be_had_is_said_in_one_line(tmp_path):
    (tmp_path / "kubelet.sock").write_text("precious")
    server = PodResourcesServer(Echo(), clock=SYSTEM_CLOCK, counts=CallCounts())
    with pytest.raises(SocketFileError, match="not a socket"):
        await server.start(SocketPlace(path=str(tmp_path / "kubelet.sock")))
    await server.stop()

    assert (tmp_path / "kubelet.sock").read_text() == "precious"
