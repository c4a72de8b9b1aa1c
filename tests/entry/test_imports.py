"""What processes do not load, because it would cost each of them memory."""

import subprocess
import sys
from functools import cache

import pytest


def loaded(process: str) -> frozenset[str]:
    """The modules that are loaded when a process of Bursar starts."""
    return loaded_with(f"bursar.entry.{process}")


@cache
def loaded_with(module: str) -> frozenset[str]:
    ask = f"import sys, {module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    modules = frozenset(ran.stdout.split())
    assert module in modules
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


def test_only_a_kubeconfig_with_an_exec_plugin_loads_what_starts_programs():
    plugins = "bursar.adapters.kube.kubeconfig.exec_plugin"

    assert not {plugins, "shutil", "lzma"} & loaded_with("bursar.adapters.kube.kubeconfig.config")
    assert plugins in loaded_with("bursar.adapters.kube.kubeconfig.exec_user")
