"""Help, version and completion."""

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from bursar import __version__
from bursar.cli.help.front_page import VERBS, front_page
from bursar.cli.root import bursar as root
from support.processes.command_line import COMMAND, run_bursar

ROOT = Path(__file__).parents[2]


def test_help_lists_every_verb_and_the_exit_codes():
    ran = run_bursar("--help")

    assert ran.code == 0
    assert all(f"  {verb} " in ran.out for verb in VERBS)
    assert "Exit codes: 0 done, 1 the answer is no, 2 bad input" in ran.out


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_help_line_of_a_verb_is_its_own(verb):
    """The root shows help lines without importing the verbs; they must not drift apart."""
    command = root.get_command(None, verb)

    assert command.get_short_help_str(limit=200) == VERBS[verb][1]


def imported(program: str, *modules: str) -> list[str]:
    """Which of these modules a program has imported at its end."""
    return sorted(all_imported(program) & set(modules))


@cache
def all_imported(program: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return frozenset(done.stdout.splitlines()[-1].split())


def test_the_front_page_comes_without_importing_what_it_does_not_need():
    program = (
        "import sys; sys.argv = ['bursar', '--help']\nfrom bursar.entry.command import main\nmain()"
    )

    assert imported(program, "click", "rich", "yaml", "msgspec", "json") == []


def test_a_verb_is_not_paid_for_by_the_others():
    program = "from bursar.entry.command import run\nrun(['quantity', '1Gi', '-o', 'json'])"

    assert imported(program, "rich", "yaml", "msgspec", "bursar.cli.reports.describe") == []


OFFLINE = [
    "quantity 1Gi",
    "describe pod -f examples/frontend.yaml",
    "describe node -f examples/node-pool.yaml",
    "describe quota -f examples/queue",
    "explain pod -f examples/cluster",
    "queue -f examples/queue",
    "top nodes -f examples/cluster",
    "top pods -f examples/cluster",
    "top quotas -f examples/queue",
    "top peerpods -f examples/node-pool.yaml",
    "top licences -f examples/licences",
    "devices -f examples/devices",
    "peerpod rewrite -f examples/peerpods/pod.yaml",
    "policy check -f examples/policies",
    "scheduler-config -f examples/licences",
    "migrate resourcequotas -f examples/quota",
    "manifests",
    "version",
]


@pytest.mark.parametrize("line", OFFLINE)
def test_a_command_without_a_cluster_does_not_pay_for_one(line):
    """Each of these modules takes as long to import as Python takes to start, or longer."""
    program = f"from bursar.entry.command import run\nrun({line.split()})"
    slow = ("asyncio", "cryptography", "grpc", "http.client", "rich", "ssl", "textual")

    assert imported(program, *slow) == []


NEEDLESS = {
    "describe pod -f examples/frontend.yaml": [
        "bursar.app.quota.views.read_model",
        "bursar.core.quota.books",
        "bursar.entry.counting",
    ],
    "describe node -f examples/node-pool.yaml": [
        "bursar.app.quota.views.read_model",
        "bursar.core.quota.books",
        "bursar.wire.validation.verdict",
    ],
    "describe quota -f examples/queue": [
        "bursar.core.devices.source",
        "bursar.core.kubevirt.vmi",
        "bursar.wire.kubevirt",
    ],
    "explain pod -f examples/cluster": [
        "bursar.app.quota.views.inventory",
        "bursar.app.quota.views.read_model",
        "bursar.core.devices.source",
        "bursar.core.quota.books",
        "bursar.wire.kubevirt",
    ],
    "top quotas -f examples/capacity": [
        "bursar.cli.top.pods",
        "bursar.core.devices.source",
        "bursar.core.peerpods.decision",
        "bursar.core.peerpods.settings",
        "bursar.wire.kubevirt",
        "bursar.wire.peerpods.rewrite",
    ],
    "queue -f examples/queue": [
        "bursar.adapters.cel.language",
        "bursar.core.cel.expression",
        "bursar.core.kubevirt.usage",
        "bursar.core.peerpods.decision",
        "bursar.core.peerpods.settings",
        "bursar.core.placement.fit",
        "bursar.wire.devices.facts",
        "bursar.wire.peerpods.facts",
        "bursar.wire.peerpods.rewrite",
        "hashlib",
    ],
    "top nodes -f examples/cluster": ["bursar.core.quota.books", "bursar.entry.counting"],
    "manifests": [
        "bursar.app.certificates.keeper",
        "bursar.app.certificates.secrets",
        "bursar.app.controller.gating_check",
        "bursar.app.counting.kubevirt",
        "bursar.app.extender.manifests",
        "bursar.app.install.agent",
        "bursar.app.install.grafana.dashboard",
        "bursar.app.install.peerpods",
        "bursar.app.operator.rendering",
        "bursar.core.kubevirt.counter",
        "bursar.core.quota.books",
        "logging",
    ],
}


@pytest.mark.parametrize("line", NEEDLESS)
def test_a_command_does_not_import_what_it_does_not_use(line):
    """They cost little each; together they are half of a command's time."""
    program = f"from bursar.entry.command import run\nrun({line.split()})"

    never = ("difflib", "pathlib", "random", "tempfile")

    assert imported(program, *NEEDLESS[line], *never) == []


def test_a_command_starts_without_the_modules_that_only_help_and_errors_use():
    program = (
        "import sys; sys.argv = 'bursar queue -f examples/queue'.split()\n"
        "from bursar.entry.command import main\n"
        "try: main()\nexcept SystemExit: pass"
    )

    assert imported(program, "ast", "dis", "locale", "textwrap", "tokenize") == ["textwrap"]


def test_every_module_that_need_not_be_imported_exists():
    """Otherwise a new name would leave the test above with nothing to find."""
    named = {module for modules in NEEDLESS.values() for module in modules}

    assert [module for module in sorted(named) if find_spec(module) is None] == []


def test_a_peer_pod_in_a_file_brings_what_reads_it():
    program = "from bursar.entry.command import run\nrun('queue -f examples/peerpods'.split())"
    found = imported(program, "bursar.wire.peerpods.facts")

    assert found == ["bursar.wire.peerpods.facts"]


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_without_a_verb_the_front_page_is_shown(arguments):
    ran = run_bursar(*arguments)

    assert (ran.code, ran.out, ran.err) == (0, front_page(), "")


def test_version():
    assert run_bursar("--version").out == f"bursar {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell):
    ran = run_bursar("completion", shell)

    assert ran.code == 0
    assert "_BURSAR_COMPLETE" in ran.out


def test_bash_completes_verbs_with_the_printed_script():
    script = (
        f'PATH="{COMMAND.parent}:$PATH"; eval "$(bursar completion bash)"; '
        'COMP_WORDS=(bursar qu); COMP_CWORD=1; _bursar_completion bursar; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["quantity", "queue"], done.stderr


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("descibe", "no such command 'descibe'; did you mean 'describe'? See bursar --help"),
        (
            "describe pid",
            "describe: no such command 'pid'; did you mean 'pod'? See bursar describe --help",
        ),
        (
            "describe pod --filname x",
            (
                "describe pod: no such option '--filname'; did you mean one of "
                "'--filename', '--namespace'? See bursar describe pod --help"
            ),
        ),
        ("zzz", "no such command 'zzz'; see bursar --help"),
        (
            "quantity 1 -o tabel",
            (
                "quantity: invalid value for '-o' / '--output': 'tabel' is not one of 'table', "
                "'wide', 'json', 'yaml', 'csv', 'name'; did you mean 'table'? See bursar quantity "
                "--help"
            ),
        ),
        (
            "peerpod instance --vcpus x",
            (
                "peerpod instance: invalid value for '--vcpus': 'x' is not a whole number; see "
                "bursar peerpod instance --help"
            ),
        ),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(line, error):
    ran = run_bursar(*line.split())

    assert (ran.code, ran.err) == (2, f"bursar: {error}\n")
