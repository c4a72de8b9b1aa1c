"""The client of kubelet's socket: messages pass unchanged, and restarts are survived."""

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from bursar.adapters.node.kubelet_socket import KubeletSocket, SocketLimits
from bursar.app.devices.ports import CallError, Method, Version
from support.devices.scripted_kubelet import Echo, serving
from support.until import until


async def failure(call):
    with pytest.raises(CallError) as raised:
        await call
    return raised.value


async def test_bytes_pass_both_ways_on_every_method(tmp_path):
    path = tmp_path / "kubelet.sock"
    async with serving(Echo(), path), KubeletSocket(str(path)) as kubelet:
        answers = [
            await kubelet.call(Version.V1, Method.LIST, b"\x01", None),
            await kubelet.call(Version.V1ALPHA1, Method.LIST, b"\x02", None),
            await kubelet.call(Version.V1, Method.GET, b"\xff\x00", None),
            await kubelet.call(Version.V1, Method.ALLOCATABLE, b"", None),
        ]

    assert answers == [
        b"v1 List:\x01",
        b"v1alpha1 List:\x02",
        b"v1 Get:\xff\x00",
        b"v1 GetAllocatableResources:",
    ]


async def test_path_that_is_no_text_is_a_path_all_the_same(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff%20 kubelet.sock")
    async with serving(Echo(), path), KubeletSocket(str(path)) as kubelet:
        assert await kubelet.call(Version.V1, Method.LIST, b"", None) == b"v1 List:"


async def test_code_and_text_of_failures_are_kept(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    async with serving(echo, path), KubeletSocket(str(path)) as kubelet:
        for code, text in ((2, "pod a in namespace b not found"), (7, "not today: ü")):
            echo.error = CallError(code, text)
            error = await failure(kubelet.call(Version.V1, Method.GET, b"", None))
            assert (error.code, error.text) == (code, text)


async def test_missing_or_dead_socket_is_unavailable_at_once(tmp_path):
    path = tmp_path / "kubelet.sock"
    async with KubeletSocket(str(path)) as kubelet:
        missing = await failure(kubelet.call(Version.V1, Method.LIST, b"", None))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        dead = await failure(kubelet.call(Version.V1, Method.LIST, b"", None))

    assert (missing.code, dead.code) == (14, 14)


async def is_answered(kubelet) -> bool:
    try:
        return await kubelet.call(Version.V1, Method.LIST, b"", None) == b"v1 List:"
    except CallError:
        return False


async def test_kubelet_that_takes_its_time_to_accept_is_waited_for(tmp_path):
    """As on a busy node: the connection exists, and HTTP/2 begins later."""
    path, behind = tmp_path / "kubelet.sock", tmp_path / "behind.sock"

    async def copy(reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def relay(reader, writer):
        await asyncio.sleep(1)
        there, back = await asyncio.open_unix_connection(str(behind))
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async with serving(Echo(), behind):
        relaying = await asyncio.start_unix_server(relay, str(path))
        async with KubeletSocket(str(path)) as kubelet:
            answer = await kubelet.call(Version.V1, Method.LIST, b"", None)
        relaying.close()

    assert answer == b"v1 List:"


async def test_kubelet_may_come_later_and_go_and_come_again(tmp_path):
    """Each time it is another socket of the same name."""
    path = tmp_path / "kubelet.sock"
    async with KubeletSocket(str(path)) as kubelet:
        for _ in range(3):
            await failure(kubelet.call(Version.V1, Method.LIST, b"", None))
            async with serving(Echo(), path):
                await until(lambda: is_answered(kubelet), "an answer")


async def test_deadline_is_passed_on_and_kept(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    async with serving(echo, path), KubeletSocket(str(path)) as kubelet:
        late = [await failure(kubelet.call(Version.V1, Method.LIST, b"", 0.05))]
        while not echo.within_s:
            # A busy machine takes longer than that to pass a call on.
            late.append(await failure(kubelet.call(Version.V1, Method.LIST, b"", len(late))))
        await until(lambda: echo.left == len(echo.within_s))

    assert {each.code for each in late} == {4}
    assert echo.within_s[0] is not None
    assert echo.within_s[0] <= len(late) * 1.1


async def test_calls_without_a_deadline_get_one(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    limits = SocketLimits(call_s=0.05)
    async with serving(echo, path), KubeletSocket(str(path), limits=limits) as kubelet:
        late = await failure(kubelet.call(Version.V1, Method.GET, b"", None))

    assert late.code == 4


async def test_caller_that_leaves_ends_the_call_at_kubelet(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    echo.hold = asyncio.Event()
    async with serving(echo, path), KubeletSocket(str(path)) as kubelet:
        caller = asyncio.create_task(kubelet.call(Version.V1, Method.LIST, b"", None))
        await until(echo.under_way.is_set)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await until(lambda: echo.left == 1)

    assert caller.cancelled()


async def test_answers_may_be_long_up_to_the_limit(tmp_path):
    path, echo = tmp_path / "kubelet.sock", Echo()
    limits = SocketLimits(answer_bytes_max=5 * 2**20)
    echo.padding = b"x" * (5 * 2**20 - len(b"v1 Get:"))
    async with serving(echo, path), KubeletSocket(str(path), limits=limits) as kubelet:
        fits = await kubelet.call(Version.V1, Method.GET, b"", None)
        error = await failure(kubelet.call(Version.V1, Method.GET, b"y", None))

    assert len(fits) == 5 * 2**20
    assert error.code == 8


async def test_signs_in_the_path_that_addresses_give_a_meaning_are_just_signs(tmp_path):
    folder = tmp_path / "a b%20?#ü"
    path = folder / "kubelet.sock"
    async with serving(Echo(), path), KubeletSocket(str(path)) as kubelet:
        assert await kubelet.call(Version.V1, Method.GET, b"", None) == b"v1 Get:"
    assert path.is_socket()
