"""How the command ends: what it says of bad input, and when its output cannot be written."""

import json
import subprocess
from pathlib import Path

import pytest

from bursar.cli.errors.exit_codes import BAD_INPUT
from support.extender.processes import cluster_resource
from support.processes.command_line import COMMAND, run_bursar

POD = str(Path(__file__).parents[2] / "examples" / "peerpods" / "pod.yaml")
NO_SPACE = "bursar: cannot write the output: no space left on device\n"


def in_shell(text: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", f'bursar() {{ {COMMAND} "$@"; }}; {text}'],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--version",
        "quantity 1",
        "quantity 1 -o json",
        "quantity --help",
        f"peerpod rewrite -f {POD}",
        f"peerpod rewrite -f {POD} -o patch",
        "peerpod instance --vcpus 1",
        f"describe pod -f {POD} -o yaml",
        "manifests",
        "completion bash",
        "up --for 100ms",
    ],
)
def test_a_full_disk_is_told_in_one_line(arguments):
    assert in_shell(f"bursar {arguments} > /dev/full") == (3, NO_SPACE)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_it_does_not_matter_when_python_writes(unbuffered):
    ran = in_shell(f"export PYTHONUNBUFFERED={unbuffered}; bursar manifests > /dev/full")

    assert ran == (3, NO_SPACE)


def test_a_closed_output_is_told_too():
    assert in_shell("bursar quantity 1 >&-") == (
        3,
        "bursar: cannot write the output: bad file descriptor\n",
    )


def test_where_nothing_can_be_told_the_code_says_it():
    assert in_shell("bursar quantity 1 > /dev/full 2> /dev/full") == (3, "")
    assert in_shell("bursar quantity 1 >&- 2>&-") == (3, "")
    assert in_shell(f"bursar peerpod rewrite -f {POD}.none 2> /dev/full") == (2, "")
    assert in_shell("bursar no-such-verb 2> /dev/full") == (2, "")
    assert in_shell("bursar no-such-verb 2>&-") == (2, "")


@pytest.mark.parametrize("arguments", ["", "manifests", "quantity 1"])
def test_a_reader_that_went_away_is_no_failure(arguments):
    assert in_shell(f"bursar {arguments} | true; exit ${{PIPESTATUS[0]}}") == (0, "")


def test_a_refusal_is_one_line_without_control_characters_whatever_the_input_holds():
    pool = cluster_resource("a\x1b[2J\x9b\nbursar: ", "cpu", 3)
    ran = run_bursar("top", "licences", "-f", "-", stdin=json.dumps(pool).encode())

    assert ran.code == BAD_INPUT
    assert ran.err.startswith(r"bursar: ClusterResource a\x1b[2J\x9b\nbursar: : spec.resourceName")
    assert ran.err.removesuffix("\n").isprintable()
