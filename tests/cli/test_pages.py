"""The stored help pages are those of click, and every command and option can be understood."""

import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bursar.cli.help.examples import EXAMPLES
from bursar.cli.help.pages import MANUAL, stored, stored_answer
from generate_pages import FOLDER, every_command, path_of
from support.processes.command_line import COMMAND, run_bursar

ROOT = Path(__file__).parents[2]
FOUND = [(" ".join(path_of(context)), command) for context, command in every_command()]
NAMES = [name for name, _ in FOUND if name]
OFFLINE_VERBS = ("completion", "examples", "manifests", "peerpod", "quantity", "version")


def fresh(program: str) -> str:
    """What a new process prints. In this one other tests have used the commands without `bursar`,
    and click remembers that they had no `-h` then."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "tools",
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_stored_pages_are_what_click_prints():
    """`make pages` writes them afresh."""
    made = fresh("import json; from generate_pages import pages; print(json.dumps(pages()))")

    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == json.loads(made)


@pytest.mark.parametrize("name", ["describe pod", "explain", "queue", "manifests"])
def test_help_is_the_same_with_click_and_without(name):
    arguments = [*name.split(), "--help"]
    printed = fresh(f"from bursar.entry.command import run; raise SystemExit(run({arguments}))")

    assert printed == stored_answer([*name.split(), "-h"], "bursar")


@pytest.mark.parametrize("name", NAMES)
def test_help_imports_nothing_that_is_slow(name):
    program = (
        f"import sys; sys.argv = ['bursar', *{name.split()}, '--help']\n"
        "from bursar.entry.command import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'click', 'json', 'rich', 'pathlib', 'dataclasses'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path.append({str(ROOT / 'src')!r})\n{program}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stdout.startswith(f"Usage: bursar {name} ")


def test_a_narrow_terminal_gets_a_narrow_page():
    wide = run_bursar("describe", "pod", "--help", COLUMNS="80").out
    narrow = run_bursar("describe", "pod", "--help", COLUMNS="60").out

    assert max(map(len, wide.splitlines())) > 60
    assert max(len(line) for line in narrow.split("Examples:")[0].splitlines()) <= 60


def test_the_width_of_the_terminal_counts_without_the_variable():
    parent, child = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    try:
        subprocess.run(["stty", "cols", "60"], stdin=child, check=True)
        subprocess.run(
            [str(COMMAND), "quantity", "--help"], stdout=child, check=True, env=environment
        )
        shown = os.read(parent, 65536).decode()
    finally:
        os.close(parent)
        os.close(child)

    assert max(len(line) for line in shown.split("Examples:")[0].splitlines()) <= 60


@pytest.mark.parametrize("word", ["..", "../../cli", "a/b", "nothing", "describe.pod", "-x"])
def test_words_that_are_no_command_have_no_page(word):
    assert stored_answer([word, "--help"], "bursar") is None


# ------------------------------------------------------------------ what the pages say


@pytest.mark.parametrize(
    "command", [command for _, command in FOUND], ids=[name or "bursar" for name, _ in FOUND]
)
def test_every_option_can_be_understood_alone(command):
    texts = {
        each.opts[-1]: each.help or ""
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
    }
    unclear = {
        option: text
        for option, text in texts.items()
        if len(text.split()) < 3 or not text.endswith(".") or text.startswith(("Of ", "Likewise"))
    }

    assert unclear == {}


def test_every_command_has_examples_and_no_others_do():
    assert sorted(EXAMPLES) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_about_the_command_and_fit_the_page(name):
    page = stored(f"{name.replace(' ', '.')}.txt")

    assert EXAMPLES[name]
    assert page.count("Examples:") == 1
    for line in EXAMPLES[name]:
        assert f"bursar {name}" in line
        assert f"\n    {line}\n" in page
        assert len(line) <= 76


@pytest.mark.parametrize("line", sorted({line for each in EXAMPLES.values() for line in each}))
def test_every_example_has_options_that_exist(line):
    """Also those that take a cluster, which no test runs here."""
    contexts = {context.command_path: context for context, _ in every_command()}
    for part in (part.strip() for part in re.split(r"[|>]|&&", line)):
        if not part.startswith("bursar "):
            continue
        words = shlex.split(part)
        known = [n for n in range(1, len(words) + 1) if " ".join(words[:n]) in contexts]
        context = contexts[" ".join(words[: known[-1]])]
        parser = context.command.make_parser(context)

        parser.parse_args(words[known[-1] :])  # raises UsageError


def is_offline(line: str) -> bool:
    """Whether it reads example files, or nothing but its arguments."""
    if not line.startswith("bursar ") or {"--context", "copy", "|"} & set(line.split()):
        return False
    return " -f examples/" in line or line.split()[1] in OFFLINE_VERBS


OFFLINE = sorted({line for lines in EXAMPLES.values() for line in lines if is_offline(line)})


@pytest.mark.parametrize("line", OFFLINE)
def test_examples_that_need_no_cluster_run(line, tmp_path):
    """As after `bursar examples copy examples`."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(tmp_path):
        ran = run_bursar(*shlex.split(line)[1:], KUBECONFIG=str(tmp_path / "none"))

    assert ran.code in {0, 1}, ran.err
    assert ran.out or ran.err


def test_many_examples_need_no_cluster():
    assert len(OFFLINE) > 20


def test_the_manual_page_has_every_command_and_option():
    page = stored(MANUAL)

    assert run_bursar("man").out == page
    for name, command in FOUND[1:]:
        assert f"\n.SS bursar {name}".replace("-", "\\-") in page
        for each in command.params:
            if isinstance(each, click.Option):
                assert each.opts[-1].replace("-", "\\-") in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="takes groff, which man uses")
def test_the_manual_page_can_be_formatted():
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-Wbreak"],
        input=stored(MANUAL),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "describe pod" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((f"top {each}", "Default: that of the context") for each in ("pods", "quotas")),
        *((each, "Default: that of the context") for each in ("describe pod", "queue")),
        *((f"top {each}", "Default: all.") for each in ("devices", "licences", "namespaces")),
        *((f"top {each}", "Default: all.") for each in ("nodes", "peerpods")),
        *(
            (each, "No effect: nodes have no namespace.")
            for each in ("describe node", "capacity get")
        ),
    ],
)
def test_help_of_n_says_which_namespaces_are_shown_without_it(name, words):
    command = dict(FOUND)[name]
    option = next(each for each in command.params if "--namespace" in each.opts)

    assert words in (option.help or "")
