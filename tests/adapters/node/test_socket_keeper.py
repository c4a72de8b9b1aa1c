"""The agent takes the path of its socket only if no other program answers there."""

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.adapters.node.server import PodResourcesServer
from bursar.adapters.node.socket_file import SocketFileError, SocketPlace, identity, lock_socket
from bursar.adapters.node.socket_keeper import (
    ADVICE,
    ANSWERING,
    ANSWERING_AGAIN,
    KeeperRules,
    SocketKeeper,
    SocketOwner,
    socket_owner,
)
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.ports import Method, Version
from support.devices.scripted_kubelet import Echo
from support.until import until


@pytest.fixture(autouse=True)
def _every_level(caplog):
    caplog.set_level("INFO")


def said_once(caplog):
    """The messages without repetitions, whose rate the log bounds."""
    return [message for message, _ in groupby(caplog.messages)]


@contextmanager
def another_on(path):
    """Somebody who puts a socket of their own there and listens, as koordlet's proxy does."""
    beside = path.with_name("another")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(beside))
        listener.listen(100)
        beside.rename(path)
        yield identity(path)


class CountingClock:
    """The real clock; it counts how often the keeper has looked and gone to sleep."""

    now, monotonic = staticmethod(SYSTEM_CLOCK.now), staticmethod(SYSTEM_CLOCK.monotonic)

    def __init__(self):
        self.sleeps = 0

    async def sleep(self, seconds):
        self.sleeps += 1
        await SYSTEM_CLOCK.sleep(seconds)


async def more_looks(keeper):
    clock = keeper._clock
    enough = clock.sleeps + 5
    await until(lambda: clock.sleeps >= enough)


@asynccontextmanager
async def kept(path):
    """An agent's server in its place, held and watched."""
    place = SocketPlace(path=str(path))
    server = PodResourcesServer(Echo(), clock=SYSTEM_CLOCK, counts=CallCounts())
    rules = KeeperRules(every_s=0.01)
    keeper = SocketKeeper(server, place, clock=CountingClock(), rules=rules)
    with lock_socket(place):
        running = asyncio.create_task(keeper.run())
        try:
            yield keeper
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop()


def is_found(keeper, whom):
    return lambda: keeper.owner is whom


async def answer(path):
    async with KubeletSocket(str(path)) as kubelet:
        return await kubelet.call(Version.V1, Method.LIST, b"", 5)


async def test_socket_that_another_puts_over_ours_is_noticed_and_left_alone(tmp_path, caplog):
    path = tmp_path / "kubelet.sock"
    async with kept(path) as keeper:
        await until(is_found(keeper, SocketOwner.AGENT))
        with another_on(path) as theirs:
            await until(is_found(keeper, SocketOwner.ANOTHER))
            await more_looks(keeper)
            left = identity(path)

    assert left == theirs
    assert said_once(caplog) == [ANSWERING, ADVICE]


async def test_where_another_answers_already_nothing_is_replaced(tmp_path, caplog):
    path = tmp_path / "kubelet.sock"
    with another_on(path) as theirs:
        async with kept(path) as keeper:
            await until(is_found(keeper, SocketOwner.ANOTHER))
            await more_looks(keeper)
            left = identity(path)

    assert left == theirs
    assert said_once(caplog) == [ADVICE]


@pytest.mark.parametrize("is_tidy", [True, False], ids=["and its file", "and its file stays"])
async def test_once_the_other_is_gone_we_answer_again(tmp_path, is_tidy, caplog):
    path = tmp_path / "kubelet.sock"
    async with kept(path) as keeper:
        await until(is_found(keeper, SocketOwner.AGENT))
        with another_on(path):
            await until(is_found(keeper, SocketOwner.ANOTHER))
            if is_tidy:
                path.unlink()
        await until(is_found(keeper, SocketOwner.AGENT))
        answered = await answer(path)

    assert answered == b"v1 List:"
    assert said_once(caplog) == [ANSWERING, ADVICE, ANSWERING]


async def test_removed_socket_is_made_again(tmp_path, caplog):
    path = tmp_path / "kubelet.sock"
    async with kept(path) as keeper:
        await until(is_found(keeper, SocketOwner.AGENT))
        path.unlink()
        await until(lambda: len(caplog.messages) == 2)
        answered = await answer(path)

    assert answered == b"v1 List:"
    assert caplog.messages == [ANSWERING, ANSWERING_AGAIN]


async def test_agent_that_follows_another_finds_a_socket_that_nobody_answers_on(tmp_path, caplog):
    path = tmp_path / "kubelet.sock"
    for _ in range(3):
        async with kept(path) as keeper:
            await until(is_found(keeper, SocketOwner.AGENT))
            await more_looks(keeper)

    assert caplog.messages == [ANSWERING] * 3
    assert keeper.owner is SocketOwner.NONE


async def test_what_is_no_socket_ends_the_agent_and_stays(tmp_path):
    path = tmp_path / "kubelet.sock"
    place = SocketPlace(path=str(path))
    server = PodResourcesServer(Echo(), clock=SYSTEM_CLOCK, counts=CallCounts())
    keeper = SocketKeeper(server, place, clock=SYSTEM_CLOCK)
    path.write_text("precious")

    with pytest.raises(SocketFileError, match="not a socket"):
        await keeper.run()
    await server.stop()
    assert path.read_text() == "precious"


async def test_file_that_goes_while_we_look_is_nobodys(tmp_path):
    path = tmp_path / "kubelet.sock"
    with another_on(path) as theirs:
        assert await socket_owner(str(path), own=None) is SocketOwner.ANOTHER
        assert await socket_owner(str(path), own=theirs) is SocketOwner.AGENT
        os.unlink(path)  # noqa: PTH108 - as koordlet does when it ends
        assert await socket_owner(str(path), own=None) is SocketOwner.NONE
