"""SIGUSR1 writes the state of a process to its log, and does not end it."""

import asyncio
import os
import signal

from bursar.app.log import Log
from bursar.entry.lifetime.lifetime import until_signalled
from bursar.entry.lifetime.state_dump import StateDump
from support.until import until


async def test_the_state_is_logged_on_the_signal_and_the_work_goes_on(caplog):
    caplog.set_level("INFO")
    state, released = StateDump(Log("controller")), asyncio.Event()

    async def work():
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: "the process has no state yet" in caplog.messages)
        state.report = lambda: {"pods": {"known": 3}, "ledger": {"quotas": 2}}
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: caplog.messages.count("state of this process") == 2)
        released.set()

    await until_signalled(work(), state)

    assert released.is_set()
    sections = [
        record.fields for record in caplog.records if record.message == "state of this process"
    ]
    assert sections == [{"section": "pods", "known": 3}, {"section": "ledger", "quotas": 2}]


def test_the_time_since_the_start_grows():
    state = StateDump(Log("controller"))
    first = state.uptime_s

    assert 0 <= first <= state.uptime_s
