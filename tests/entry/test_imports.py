"""What processes do not load, because it would cost each of them memory."""

import subprocess
import sys

import pytest

ASK = "import sys, bursar.entry.{}; print('cryptography' in sys.modules)"
ASK_TRACES = (
    "import sys, bursar.entry.{}; print([m for m in sys.modules if 'opentelemetry' in m "
    "or 'telemetry.tracing' in m])"
)


@pytest.mark.parametrize("process", ["agent", "command", "controller", "up.run", "webhook"])
def test_no_process_loads_cryptography_at_its_start(process):
    """Only a leader that keeps certificates does."""
    ran = subprocess.run(
        [sys.executable, "-c", ASK.format(process)], capture_output=True, text=True, check=True
    )

    assert ran.stdout == "False\n"


@pytest.mark.parametrize("process", ["agent", "command", "controller", "operator", "webhook"])
def test_no_process_loads_what_traces_need_unless_it_traces(process):
    ran = subprocess.run(
        [sys.executable, "-c", ASK_TRACES.format(process)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("process", ["command", "processes", "up.run"])
def test_nothing_loads_the_terminal_application_until_it_draws(process):
    ask = f"import sys, bursar.entry.{process}; print('textual' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)

    assert ran.stdout == "False\n"
