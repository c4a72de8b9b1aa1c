"""Completion in the shells themselves: zsh and fish read the printed scripts.

Bash is in tests/cli/test_completing.py, since every machine has it.
"""

import os
import pty
import select
import subprocess
import time

import pytest

from assets import ensure_packages
from support.processes.command_line import COMMAND

pytestmark = pytest.mark.slow

SECONDS_MAX = 300
"""How long a shell may take on a busy machine; usually it is a second."""


@pytest.fixture(scope="module")
def shells():
    return ensure_packages("shells")


@pytest.fixture
def environment(shells, tmp_path):
    (libraries,) = shells.glob("usr/lib/*-linux-gnu")
    return {
        "PATH": f"{COMMAND.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LD_LIBRARY_PATH": str(libraries),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


class Zsh:
    """An interactive zsh in a pseudo-terminal, since its completion needs a line editor."""

    def __init__(self, shells, environment):
        self._process, self._terminal = pty.fork()
        if not self._process:
            # Where Debian keeps it depends on the release.
            program = next(iter([*shells.glob("bin/zsh"), *shells.glob("usr/bin/zsh")]))
            os.execve(program, ["zsh", "-f", "-i"], environment)  # noqa: S606 - the child

    def type(self, keys, expected):
        """Type, and wait until the text appears on the terminal."""
        os.write(self._terminal, keys.encode())
        seen, end = "", time.monotonic() + SECONDS_MAX
        while expected not in seen:
            assert time.monotonic() < end, seen
            if select.select([self._terminal], [], [], 1)[0]:
                seen += os.read(self._terminal, 65536).decode(errors="replace")
        return seen

    def close(self):
        os.close(self._terminal)
        os.waitpid(self._process, 0)


@pytest.fixture
def zsh(shells, environment):
    (modules,) = shells.glob("usr/lib/*-linux-gnu/zsh/*")
    shell = Zsh(shells, environment)
    shell.type(
        f"module_path=({modules}); fpath=({shells}/usr/share/zsh/functions/**/*(/N)); "
        "PS1='> '; autoload -U compinit; compinit -u -D; "
        'eval "$(bursar completion zsh)"; echo REA""DY\n',
        "READY",
    )
    yield shell
    shell.close()


def test_zsh_completes_commands_options_and_values(zsh):
    erase_line = "\x15"
    zsh.type("bursar desc\t", "bursar describe ")
    zsh.type(f"{erase_line}bursar describe pod --na\t", "--namespace ")
    listed = zsh.type(f"{erase_line}bursar queue -o \t", "name")
    assert {"table", "wide", "json", "yaml", "csv"} <= set(listed.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bursar desc", ["describe\tShow what pods, nodes and quotas consume."]),
        ("bursar queue -o ", ["csv", "json", "name", "table", "wide", "yaml"]),
        ("bursar describe pod -f a,", ["a,b.yaml"]),
    ],
)
def test_fish_completes_with_the_whole_help(line, expected, shells, environment, tmp_path):
    (tmp_path / "a,b.yaml").touch()
    functions = f"set fish_function_path {shells}/usr/share/fish/functions"
    script = f"{functions}; bursar completion fish | source; complete -C '{line}'"
    done = subprocess.run(
        [shells / "usr/bin/fish", "--no-config", "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == expected, done.stderr
