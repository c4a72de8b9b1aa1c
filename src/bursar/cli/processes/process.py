"""What the processes of an installation have in common: where they listen, when they end."""

import os
from collections.abc import Callable
from pathlib import Path

import click

from bursar.adapters.kube.access import SERVICE_ACCOUNT_FOLDER, ClusterAccess, load_in_cluster
from bursar.adapters.kube.config import load_kubeconfig
from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.serving.server import HttpsServer
from bursar.adapters.serving.serving_pair import ServingPair
from bursar.app.admission.pods import DEFAULT_NAMESPACE
from bursar.cli.exit_codes import BadInputError
from bursar.cli.live_cluster import kubeconfigs


def address_of(bind: str) -> tuple[str, int]:
    """Host and port of `--bind`."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--bind: host:port is expected, not {bind}")
    return host.strip("[]"), int(port)


def own_namespace() -> str:
    """The namespace of the pod we run in; AAQ's if we run in none."""
    try:
        named = Path(SERVICE_ACCOUNT_FOLDER, "namespace").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return DEFAULT_NAMESPACE
    return named or DEFAULT_NAMESPACE


def cluster_access(kubeconfig: str | None, context: str) -> ClusterAccess:
    """The cluster we run in, or the one that was named."""
    try:
        if kubeconfig is None and not context:
            return load_in_cluster()
        return load_kubeconfig(kubeconfigs(kubeconfig), context=context)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


async def listen(
    server: HttpsServer, pair: ServingPair, bind: str, *, say: Callable[[str], None]
) -> None:
    """Serve until cancelled, then end in order."""
    host, port = address_of(bind)
    context = await pair.listening_context()
    try:
        port = await server.start(host, port, context)
    except OSError as error:
        raise BadInputError(f"cannot listen on {bind}: {error.strerror or error}") from None
    say(f"listening on {host}:{port}")
    try:
        await pair.follow()
    finally:
        await server.stop()


def identity_of_process() -> str:
    """Unique to the process, and telling: the host's name and our number on it."""
    return f"{os.uname().nodename}_{os.getpid()}_{os.urandom(4).hex()}"
