"""Whether a process traces: by its options, its environment and what is installed."""

import subprocess
import sys
from random import Random

import pytest
from click.testing import CliRunner

from bursar.cli.processes.telemetry.trace_options import TraceSettings, trace_options, traces_from
from bursar.entry.process import LACKING, open_tracer
from support.processes.command_line import run_bursar

ENDPOINT = "http://127.0.0.1:4318"
OPEN_WITHOUT_THE_EXTRA = f"""
import sys
sys.modules["opentelemetry.proto.collector.trace.v1.trace_service_pb2"] = None
from random import Random
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.processes.telemetry.trace_options import TraceSettings
from bursar.entry.process import open_tracer
is_required = sys.argv[1] == "1"
settings = TraceSettings(
    endpoint="{ENDPOINT}", ratio=1.0, has_names=False, is_required=is_required
)
try:
    print(open_tracer(settings, "aaq-controller", Random(1)))
except BadInputError as error:
    print(error)
"""
"""Python does not find the package that the extra brings."""


def settings_of(*arguments, environment=None):
    import click  # noqa: PLC0415 - only here

    found = []

    @click.command()
    @trace_options
    def process(**chosen):
        found.append(traces_from(chosen))

    ran = CliRunner().invoke(process, arguments, env=environment or {})
    assert ran.exit_code == 0, ran.output
    return found[0]


def test_by_default_there_are_no_traces():
    assert settings_of() is None
    assert open_tracer(None, "aaq-controller", Random(1)) is None  # noqa: S311 - ids are no secrets


def test_options_and_environment_say_where_traces_go():
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, x=1",
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_TRACES_SAMPLER_ARG": "0.5",
    }

    assert settings_of("--otlp-endpoint", ENDPOINT, "--trace-names") == TraceSettings(
        endpoint=ENDPOINT, ratio=1.0, has_names=True
    )
    assert settings_of(environment=environment) == TraceSettings(
        endpoint=ENDPOINT,
        ratio=0.5,
        has_names=False,
        headers=(("api-key", "a b"), ("x", "1")),
        service="mine",
        is_required=False,
    )
    assert settings_of(environment={**environment, "OTEL_SDK_DISABLED": "true"}) is None


def test_headers_are_not_shown():
    settings = settings_of(
        environment={"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_EXPORTER_OTLP_HEADERS": "k=s3"}
    )

    assert "s3" not in repr(settings)


@pytest.mark.parametrize("is_required", [True, False])
def test_without_the_extra_only_a_process_that_was_told_to_trace_fails(is_required):
    ran = subprocess.run(
        [sys.executable, "-c", OPEN_WITHOUT_THE_EXTRA, str(int(is_required))],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.strip() == (LACKING if is_required else "None")


def test_an_endpoint_that_is_no_url_is_a_usage_error():
    ran = run_bursar("webhook", "--otlp-endpoint=collector:4317")

    assert ran.code == 2
    assert "--otlp-endpoint must start with http:// or https://" in ran.err
