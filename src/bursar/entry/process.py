"""What the processes of an installation share: cluster access, listening, their identity."""

import os
import ssl

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess, load_in_cluster
from bursar.adapters.serving.server import HttpServer
from bursar.cli.exit_codes import BadInputError
from bursar.cli.live_cluster import named_cluster
from bursar.cli.processes.process_options import ClusterChoice


def cluster_access(choice: ClusterChoice) -> ClusterAccess:
    """The cluster that was named, else the one this process runs in. Raises `BadInputError`."""
    if choice.is_named:
        return named_cluster(choice.kubeconfig, choice.context)
    return load_in_cluster(os.environ, clock=SYSTEM_CLOCK)


async def start_server(
    server: HttpServer, address: tuple[str, int], context: ssl.SSLContext | None = None
) -> str:
    """Listen, with TLS if there is a context; return the address. Raises `BadInputError`."""
    host, port = address
    try:
        port = await server.start(host, port, context)
    except OSError as error:
        problem = error.strerror or error
        raise BadInputError(f"cannot listen on {host}:{port}: {problem}") from None
    return f"{host}:{port}"


def process_identity() -> str:
    """Name of this process as the holder of a Lease: host name, process id, random part."""
    return f"{os.uname().nodename}_{os.getpid()}_{os.urandom(4).hex()}"
