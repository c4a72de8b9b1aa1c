"""The table of every verb at several widths of a terminal, held against files.

`tests/golden/tables/NAME.txt` is what the verb prints into a pipe. On a terminal it prints the same
at every width, unless there is a file `NAME@WIDTH.txt`, for a layout that adapts on purpose. To
write the files anew:

    BURSAR_GOLDEN=write .venv/bin/python -m pytest tests/cli/test_tables.py
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.empty_server import empty_server
from support.processes.terminal import run_in_pipe, run_in_terminal

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "tables"
WIDTHS = (60, 80, 120, 200)
IS_WRITING = os.environ.get("BURSAR_GOLDEN") == "write"

CASES = {
    "queue": "queue -f examples/queue",
    "queue-wide": "queue -f examples/queue -o wide",
    "queue-sorted": "queue -f examples/queue --sort-by=pod --no-headers",
    "explain-list": "explain pod -f examples/cluster -f examples/queue -f examples/node-pool.yaml",
    "explain-list-wide": "explain pod -f examples/cluster -f examples/queue -o wide",
    "explain-pod": "explain pod worker -f examples/queue",
    "capacity-get": "capacity get -f examples/cluster",
    "capacity-get-wide": "capacity get -f examples/cluster -o wide",
    "devices": "devices -f examples/devices",
    "devices-wide": "devices -f examples/devices -o wide",
    "devices-free": "devices -f examples/devices --free",
    "policy-check": "policy check -f examples/policies --at 2026-11-14T12:00:00Z",
    "peerpod-instance": "peerpod instance -f examples/peerpods/pod.yaml",
    "peerpod-instance-size": "peerpod instance --vcpus 4 --memory 6Gi",
    "quantity": "quantity 1500m 0.1Gi +1 1E3 12x",
    "quantity-sum": "quantity --sum 1500m 1.5",
    "describe-pod": "describe pod -f examples/frontend.yaml",
    "describe-pod-wide": "describe pod -f examples -o wide",
    "describe-node": "describe node -f examples/node-pool.yaml",
    "describe-quota": "describe quota -f examples/queue",
    "top-nodes": "top nodes -f examples/cluster",
    "top-nodes-wide": "top nodes -f examples/cluster -o wide",
    "top-namespaces": "top namespaces -f examples/cluster",
    "top-pods": "top pods -f examples/cluster",
    "top-quotas": "top quotas -f examples/cluster",
    "top-devices": "top devices -f examples/devices",
    "top-licences": "top licences -f examples/licences",
    "top-peerpods": "top peerpods -f examples/cluster",
    "examples": "examples list",
    "quota-check": "agent quota-check /proc",
    "quota-check-wide": "agent quota-check /proc /sys -o wide",
    "doctor": "doctor",
    "doctor-wide": "doctor -o wide",
    "migrate-aaq": "migrate aaq --check",
}
"""A name, and the command line after `bursar`, run in the root of the repository.

The cluster of the kubeconfig has no objects, and none of Bursar's kinds.
"""
FITTING = sorted(set(CASES) - {name for name in CASES if name.endswith("-wide")} - {"quantity"})
"""Tables without `-o wide`, which fit into 80 columns but for their last one."""


@pytest.fixture(scope="module")
def variables(tmp_path_factory) -> Iterator[dict[str, str]]:
    with empty_server(tmp_path_factory.mktemp("cluster")) as kubeconfig:
        yield {"KUBECONFIG": str(kubeconfig)}


def golden(name: str, width: int | None = None) -> Path:
    own = GOLDEN / f"{name}@{width}.txt"
    return own if width is not None and own.exists() else GOLDEN / f"{name}.txt"


@pytest.mark.parametrize("name", CASES)
def test_a_pipe_gets_the_table_of_the_file(name, variables):
    shown = run_in_pipe(*CASES[name].split(), folder=ROOT, **variables)
    if IS_WRITING:
        golden(name).write_text(shown.text)

    assert shown.text
    assert shown.text == golden(name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_a_terminal_of_any_width_gets_the_same_table(name, width, variables):
    shown = run_in_terminal(*CASES[name].split(), columns=width, folder=ROOT, **variables)

    assert shown.plain == golden(name, width).read_text()


def test_on_a_terminal_the_head_is_bold_unless_colours_are_refused():
    case = CASES["queue"].split()
    shown = run_in_terminal(*case, columns=80, folder=ROOT)
    refused = run_in_terminal(*case, columns=80, folder=ROOT, NO_COLOR="1")

    assert shown.text.startswith("\x1b[1mPOSITION ")
    assert refused.text == golden("queue").read_text()


@pytest.mark.parametrize("name", FITTING)
def test_a_table_begins_its_last_column_within_eighty_columns(name):
    """The last column may be long: a terminal shows what comes before it in line."""
    heading = golden(name).read_text().splitlines()[0]

    assert len(heading[: heading.rfind("   ") + 3]) <= 80


def test_every_file_belongs_to_a_case():
    assert {path.stem.partition("@")[0] for path in GOLDEN.iterdir()} == set(CASES)
