"""How long a person waits for help, completions and commands that read a small file.

Each is measured against starting Python to do nothing, turn and turn about. Bytecode is there for
both, as in an installed package.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bursar.cli.help.examples import EXAMPLES
from bursar.cli.help.pages import COMMANDS, stored
from ratio import Ratio, alternate

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).parent / "bursar")
ROUNDS = 9
HELP_GOAL = "<= 4x"
VERB_GOAL = "<= 10x"
COMPLETED = ("bursar\nqu", "bursar\ndescribe\npod\n--", "bursar\nqueue\n-o\n")
OFFLINE = ("examples", "manifests", "peerpod", "quantity", "scheduler-config", "version")
"""Verbs that take no file, and no cluster either."""
LASTING = ("up",)


def helps() -> Iterator[list[str]]:
    yield ["--version"]
    for path in json.loads(stored(COMMANDS)):
        yield [*path.split(), "--help"]
    yield ["completion", "bash"]


def offline() -> Iterator[list[str]]:
    """The first example of each command that needs neither a cluster nor other input."""
    for path, lines in EXAMPLES.items():
        for line in lines:
            words = shlex.split(line)[1:]
            is_own = " ".join(words).startswith(path) and path not in LASTING
            reads = " -f examples/" in line or words[0] in OFFLINE
            if is_own and reads and not {"|", "copy", "--context"} & set(words):
                yield words
                break


def measure() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for words in helps():
            yield ratio(words, environment, HELP_GOAL)
        for line in COMPLETED:
            asked = {
                "_BURSAR_COMPLETE": "bash_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": str(line.count("\n")),
            }
            yield ratio([], {**environment, **asked}, HELP_GOAL, f"Tab: {' '.join(line.split())}")
        for words in offline():
            yield ratio(words, environment, VERB_GOAL)


def ratio(words: list[str], environment: dict[str, str], goal: str, name: str = "") -> Ratio:
    def run(*command: str) -> None:
        done = subprocess.run(
            command, check=False, capture_output=True, env=environment, cwd=ROOT, timeout=60
        )
        assert done.returncode in {0, 1}, done.stderr.decode()

    run(COMMAND, *words)  # writes bytecode
    ours, bare = alternate(
        lambda: run(COMMAND, *words), lambda: run(sys.executable, "-c", "pass"), ROUNDS
    )
    short = name or " ".join(words).replace("examples/", "")
    return Ratio(short[:32], ours * 1000, "python3 -c pass", bare * 1000, "ms", goal)
