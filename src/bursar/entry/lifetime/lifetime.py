"""The lifetime of a process: it works until SIGTERM or SIGINT, and tells its state on SIGUSR1."""

import asyncio
import signal
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Coroutine
from typing import Final

import bursar
from bursar.adapters.kube.access import ClusterAccess
from bursar.app.cluster.time_limit import end
from bursar.app.log import Log
from bursar.cli.processes.options.process import ClusterChoice
from bursar.cli.processes.telemetry.log_options import LogSettings
from bursar.entry.lifetime.log_output import start_log
from bursar.entry.lifetime.state_dump import StateDump
from bursar.entry.process import cluster_access

TLS_BUFFER_BYTES: Final = 16 << 10
"""The size of a TLS record. asyncio would take 256 KiB for each connection, of any client."""


def run_process(
    log: Log,
    settings: LogSettings,
    work: Coroutine[object, object, None],
    state: StateDump,
    **about: object,
) -> None:
    """Log the start with its version and `about`, work until a signal, log the end."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES
    start_log(settings)
    log.info("started", version=bursar.__version__, **about)
    asyncio.run(until_signalled(work, state))
    log.info("ended")


def run_on_cluster(
    log: Log,
    settings: LogSettings,
    cluster: ClusterChoice,
    namespace: str,
    work: Callable[[ClusterAccess, StateDump], Coroutine[object, object, None]],
) -> None:
    """As `run_process`, for a process of an installation. Raises `BadInputError`."""
    access, state = cluster_access(cluster), StateDump(log)
    run_process(
        log,
        settings,
        work(access, state),
        state,
        server=access.server,
        context=access.context,
        namespace=namespace,
    )


async def until_signalled(work: Coroutine[object, object, None], state: StateDump) -> None:
    """Work until SIGTERM or SIGINT, then cancel the work and wait for it. Raises what it raises."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGUSR1, state.write)
    waiting, working = asyncio.create_task(told.wait()), asyncio.create_task(work)
    try:
        await asyncio.wait((waiting, working), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        await end(waiting, working)
