"""What the processes of an installation share: access, listening, their identity, traces."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final

import bursar
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess, load_in_cluster
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.channel import FindContext
from bursar.app.log import Log
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.live_cluster import named_cluster
from bursar.cli.processes.options.process import ClusterChoice

if TYPE_CHECKING:
    from bursar.adapters.telemetry.tracing.exporter import OtlpTracer
    from bursar.cli.processes.telemetry.trace_options import TraceSettings

LOG: Final = Log("tracing")
LACKING: Final = "traces need the package opentelemetry-proto: pip install 'bursar[otel]'"


def cluster_access(choice: ClusterChoice) -> ClusterAccess:
    """The cluster that was named, else the one this process runs in. Raises `BadInputError`."""
    if choice.is_named:
        return named_cluster(choice.kubeconfig, choice.context)
    return load_in_cluster(os.environ, clock=SYSTEM_CLOCK)


async def start_server(
    server: HttpServer, address: tuple[str, int], find_context: FindContext | None = None
) -> str:
    """Listen, with TLS if `find_context` is given; return the address. Raises `BadInputError`."""
    host, port = address
    try:
        port = await server.start(host, port, find_context)
    except OSError as error:
        problem = error.strerror or error
        raise BadInputError(f"cannot listen on {host}:{port}: {problem}") from None
    return f"{host}:{port}"


@asynccontextmanager
async def tasks_of_process() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first `BadInputError` is raised by itself."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except* BadInputError as errors:
        raise errors.exceptions[0] from None


def process_identity() -> str:
    """Name of this process as the holder of a Lease: host name, process id, random part."""
    return f"{os.uname().nodename}_{os.getpid()}_{os.urandom(4).hex()}"


# ------------------------------------------------------------------ traces


def open_tracer(
    settings: "TraceSettings | None", service: str, random: Random
) -> "OtlpTracer | None":
    """The tracer of this process; None if it does not trace. Raises `BadInputError`.

    If only the environment asks for traces, a process that cannot trace works without them.
    """
    if settings is None:
        return None
    try:
        # A process that does not trace must not load this module.
        from bursar.adapters.telemetry.tracing.exporter import (  # noqa: PLC0415
            OtlpSettings,
            OtlpTracer,
        )

        return OtlpTracer(
            OtlpSettings(
                endpoint=settings.endpoint,
                resource={
                    "service.name": settings.service or service,
                    "service.version": bursar.__version__,
                    "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
                },
                headers=settings.headers,
                context=_context(settings),
                ratio=settings.ratio,
                has_names=settings.has_names,
            ),
            random,
        )
    except ImportError:
        problem = LACKING
    except (ValueError, OSError) as error:
        problem = f"--otlp-endpoint: {error}"
    if settings.is_required:
        raise BadInputError(problem)
    LOG.warning("not tracing", error=problem)
    return None


def _context(settings: "TraceSettings") -> ssl.SSLContext | None:
    if not settings.certificate:
        return None
    return ssl.create_default_context(cafile=settings.certificate)


def start_tracing(tasks: asyncio.TaskGroup, tracer: "OtlpTracer | None") -> None:
    """Send what is recorded, as a task of the group."""
    if tracer is not None:
        LOG.info("sending traces")
        tasks.create_task(tracer.run())
