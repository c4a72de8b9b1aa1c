"""Options of traces, with OpenTelemetry's variables of the environment as defaults."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import click
from click.core import ParameterSource

from bursar.cli import options

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
CERTIFICATE: Final = "OTEL_EXPORTER_OTLP_CERTIFICATE"
SERVICE: Final = "OTEL_SERVICE_NAME"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
DISABLED: Final = "OTEL_SDK_DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Where a process sends traces."""

    endpoint: str
    ratio: float
    has_names: bool
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    certificate: str = ""
    """File with the CAs of the collector. Empty: those of the machine."""
    service: str = ""
    """Name of the process in traces. Empty: its usual one."""
    is_required: bool = True
    """Whether a process that cannot trace must not start: the user typed the option."""


trace_options: Final = options.together(
    click.option(
        "--otlp-endpoint",
        envvar=ENDPOINT,
        metavar="URL",
        default="",
        help="Send traces to this OpenTelemetry collector, by OTLP over HTTP, such as "
        "http://collector:4318. Needs bursar[otel]. Default: no traces.",
    ),
    click.option(
        "--trace-ratio",
        envvar=RATIO,
        type=click.FloatRange(0, 1),
        default=1.0,
        show_default=True,
        help="Part of the traces that is sent.",
    ),
    options.flag(
        "--trace-names", "Send names of namespaces, pods and quotas in traces. Default: off."
    ),
)


def traces_from(chosen: Mapping[str, Any]) -> TraceSettings | None:
    """What the options say; None for no traces. Raises `click.UsageError`."""
    endpoint = str(chosen["otlp_endpoint"])
    if not endpoint or os.environ.get(DISABLED, "").lower() == "true":
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise click.UsageError("--otlp-endpoint must start with http:// or https://")
    return TraceSettings(
        endpoint=endpoint,
        ratio=float(chosen["trace_ratio"]),
        has_names=bool(chosen["trace_names"]),
        headers=_headers(os.environ.get(HEADERS, "")),
        certificate=os.environ.get(CERTIFICATE, ""),
        service=os.environ.get(SERVICE, ""),
        is_required=_is_typed(),
    )


def _is_typed() -> bool:
    source = click.get_current_context().get_parameter_source("otlp_endpoint")
    return source is ParameterSource.COMMANDLINE


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """The headers of the variable: `name=value` with commas between, percent-encoded.

    >>> _headers("api-key=a%20b, x=1")
    (('api-key', 'a b'), ('x', '1'))
    """
    pairs = (each.partition("=") for each in text.split(",") if each.strip())
    return tuple((name.strip(), unquote(value.strip())) for name, _, value in pairs)
