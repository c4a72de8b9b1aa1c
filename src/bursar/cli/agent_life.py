"""When an agent ends, and which cluster it is part of.

Apart from `cli/process`, which brings an HTTPS server and all that a controller knows: an agent
runs on every node, and every node pays for what it holds in memory.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine

from bursar.adapters.kube.config import (
    ClusterAccess,
    ConfigError,
    load_in_cluster,
    load_kubeconfig,
)
from bursar.app.devices.places import PodsFrom
from bursar.app.time_limit import end
from bursar.cli.live_cluster import kubeconfigs


async def until_told(work: Coroutine[object, object, None]) -> None:
    """Work until SIGTERM or SIGINT, then let it end in order. What it raises is raised."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    waiting, working = asyncio.create_task(told.wait()), asyncio.create_task(work)
    try:
        await asyncio.wait((waiting, working), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        await end(waiting, working)


def find_cluster(
    kubeconfig: str | None, context: str, pods_from: PodsFrom, *, say: Callable[[str], None]
) -> ClusterAccess | None:
    """The one that was named, or that we run in. Raises `ConfigError`.

    None where there is none: kubelet alone is enough for most of what an agent does.
    """
    if kubeconfig is not None or context:
        return load_kubeconfig(kubeconfigs(kubeconfig), context=context)
    try:
        return load_in_cluster()
    except ConfigError as error:
        if pods_from is PodsFrom.API:
            raise
        say(f"without an API server, so without inventory and events: {error}")
        return None
