"""Hostile pods and hostile clients for some seconds; `tools/fuzz_agent.py` does it for longer."""

import asyncio

import pytest

from support.devices.node_with_agent import GPU, Tenant, gpus, node_with_agent
from support.faults.agent_under_attack import fuzz_agent
from support.faults.hostile_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    NO_TEXT,
    PREFACE,
    SETTINGS,
    call_headers,
    frame,
)
from support.until import until_blocking

pytestmark = pytest.mark.integration

SECONDS = 20
SEED = 6
MEMORY_GROWTH_MAX = 6
AGAIN = "answering again"


async def test_hostile_pods_and_clients_cost_nobody_else_an_answer(tmp_path):
    tally = await fuzz_agent(tmp_path, seconds=SECONDS, seed=SEED)

    assert tally.wrong == []
    assert tally.memory_bytes_max < MEMORY_GROWTH_MAX * tally.memory_bytes_first
    assert tally.log_lines < tally.annotations + tally.conversations


async def test_a_server_that_a_client_has_ended_is_back_at_once(tmp_path):
    """Python's gRPC gives up over a path that is no text. So we look whether we are there."""
    pieces = [
        PREFACE + frame(SETTINGS, 0, 0, b""),
        frame(HEADERS, END_HEADERS, 1, call_headers(NO_TEXT)),
        frame(DATA, END_STREAM, 1, bytes(5)),
    ]
    async with node_with_agent(tmp_path) as node:
        await node.has(Tenant("calm", gpus("GPU-0")))
        pid = node.agent.program.pid
        for times in range(1, 4):
            _, writer = await asyncio.open_unix_connection(str(node.socket))
            writer.write(b"".join(pieces))
            await writer.drain()
            await until_blocking(lambda times=times: node.agent.log().count(AGAIN) == times, AGAIN)
            writer.close()

            assert await node.devices("calm") == {"main": {GPU: ["GPU-0"]}}

        assert node.agent.program.pid == pid
        assert node.agent.page("/readyz")[0] == 200


async def test_a_socket_that_somebody_removed_is_there_again(tmp_path):
    async with node_with_agent(tmp_path) as node:
        await node.has(Tenant("calm", gpus("GPU-0")))
        node.socket.unlink()
        await until_blocking(lambda: AGAIN in node.agent.log(), AGAIN)

        assert await node.devices("calm") == {"main": {GPU: ["GPU-0"]}}
