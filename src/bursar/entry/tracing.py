"""How a process traces: nothing of it is loaded unless the user asked for traces."""

import asyncio
import os
import socket
import ssl
from random import Random
from typing import TYPE_CHECKING, Final

import bursar
from bursar.app.log import Log
from bursar.cli.exit_codes import BadInputError
from bursar.cli.processes.trace_options import TraceSettings

if TYPE_CHECKING:
    from bursar.adapters.telemetry.tracing.exporter import OtlpTracer

LOG: Final = Log("tracing")
LACKING: Final = "traces need the package opentelemetry-proto: pip install 'bursar[otel]'"


def open_tracer(
    settings: TraceSettings | None, service: str, random: Random
) -> "OtlpTracer | None":
    """The tracer of this process; None if it does not trace. Raises `BadInputError`.

    If only the environment asks for traces, a process that cannot trace works without them.
    """
    if settings is None:
        return None
    try:
        # A process that does not trace must not load it.
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


def _context(settings: TraceSettings) -> ssl.SSLContext | None:
    if not settings.certificate:
        return None
    return ssl.create_default_context(cafile=settings.certificate)


def start_tracing(tasks: asyncio.TaskGroup, tracer: "OtlpTracer | None") -> None:
    """Send what is recorded, as a task of the group."""
    if tracer is not None:
        LOG.info("sending traces")
        tasks.create_task(tracer.run())
