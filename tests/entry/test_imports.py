"""What processes do not load, because it would cost each of them memory."""

import subprocess
import sys
from functools import cache

import pytest


@cache
def loaded(process: str) -> frozenset[str]:
    """The modules that are loaded when a process of Bursar starts."""
    ask = f"import sys, bursar.entry.{process}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    modules = frozenset(ran.stdout.split())
    assert f"bursar.entry.{process}" in modules
    return modules


@pytest.mark.parametrize("process", ["agent", "command", "controller", "up.run", "webhook"])
def test_no_process_loads_cryptography_at_its_start(process):
    """Only a leader that keeps certificates does."""
    assert "cryptography" not in loaded(process)


@pytest.mark.parametrize("process", ["agent", "command", "controller", "operator", "webhook"])
def test_no_process_loads_what_traces_need_unless_it_traces(process):
    needed = ("opentelemetry", "telemetry.tracing")

    assert [module for module in loaded(process) if any(each in module for each in needed)] == []


@pytest.mark.parametrize("process", ["command", "processes", "up.run"])
def test_nothing_loads_the_terminal_application_until_it_draws(process):
    assert "textual" not in loaded(process)
