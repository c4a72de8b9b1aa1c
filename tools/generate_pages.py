"""Writes src/bursar/cli/help/stored: help pages, completion data and scripts, and the manual page.

All of it is made from click's commands, and `bursar` prints it without importing click. `--check`
only compares.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from bursar import __version__
from bursar.cli.help.completing import FROM_CLUSTER, Command, Parameter
from bursar.cli.help.examples import EXAMPLES
from bursar.cli.help.front_page import EXIT_CODES, OPTIONS, TITLE
from bursar.cli.help.pages import COLUMNS, COMMANDS, MANUAL, SHELLS, help_name, script_name
from bursar.cli.help.shells import VARIABLE
from bursar.cli.kinds import KINDS, KindNames
from bursar.cli.root import bursar

FOLDER = Path(__file__).parents[1] / "src" / "bursar" / "cli" / "help" / "stored"
CUT_AT_COMMAS = ('(string split "," $completion)', '(string split --max 1 "," $completion)')
"""Click's script for fish shows a help text, or a name, only up to its first comma."""
VALUES = {"--context": "contexts", "--namespace": "namespaces", "--node": "nodes"}
"""Options whose values are those of a cluster or a kubeconfig."""
ARGUMENTS = {
    "capacity get": "nodes",
    "capacity set": "nodes",
    "capacity unset": "nodes",
    "describe node": "nodes",
    "describe pod": "pods",
    "describe quota": "quotas",
    "explain pod": "pods",
    "migrate resourcequotas": "resourcequotas",
    "release": "pods",
}
"""Commands whose argument is the name of an object."""
ENVIRONMENT = {
    "KUBECONFIG": "Kubeconfig files, separated by colons, unless --kubeconfig names one.",
    "NO_COLOR": "If it is set, no output has colours.",
}

Found = tuple[click.Context, click.Command]


def every_command() -> Iterator[Found]:
    """Each command below `bursar` with its context, in the order of their names."""
    root = click.Context(
        bursar,
        info_name="bursar",
        terminal_width=COLUMNS - 2,  # as click computes it for a terminal of this width
        **bursar.context_settings,
    )
    yield root, bursar
    yield from _below(root, bursar)


def _below(parent: click.Context, group: click.Group) -> Iterator[Found]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        yield context, command
        if isinstance(command, click.Group):
            yield from _below(context, command)


def path_of(context: click.Context) -> tuple[str, ...]:
    """The names that lead to a command, without `bursar`."""
    names: list[str] = []
    at: click.Context | None = context
    while at is not None and at.parent is not None:
        names.insert(0, str(at.info_name))
        at = at.parent
    return tuple(names)


def pages() -> dict[str, str]:
    """The text of each file."""
    found = list(every_command())
    made = {
        help_name(path_of(context)): f"{command.get_help(context)}\n"
        for context, command in found
        if path_of(context)
    }
    lines = [
        f"{json.dumps(' '.join(path_of(context)))}: {json.dumps(_described(context, command))}"
        for context, command in found
    ]
    made[COMMANDS] = "{\n" + ",\n".join(lines) + "\n}\n"
    for shell in SHELLS:
        script = get_completion_class(shell)
        assert script is not None
        source = script(bursar, {}, "bursar", VARIABLE).source()
        made[script_name(shell)] = source.replace(*CUT_AT_COMMAS)
    made[MANUAL] = manual(found)
    return made


# ------------------------------------------------------------------ completion


def _described(context: click.Context, command: click.Command) -> Command:
    commands: dict[str, str] = {}
    other_names: dict[str, str] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            commands[name] = each.get_short_help_str(limit=200)
    if isinstance(command, KindNames):
        for names in KINDS:
            found = next((name for name in names if name in commands), None)
            if found is not None:
                other_names |= {name: found for name in names if name not in commands}
    parameters = command.get_params(context)
    return Command(
        commands=commands,
        other_names=other_names,
        options=[_option(each) for each in parameters if isinstance(each, click.Option)],
        arguments=[
            _parameter(each, ARGUMENTS.get(" ".join(path_of(context)), ""))
            for each in parameters
            if isinstance(each, click.Argument)
        ],
    )


def _option(option: click.Option) -> Parameter:
    names = [*option.opts, *option.secondary_opts]
    described = _parameter(option, next((VALUES[name] for name in names if name in VALUES), ""))
    described["names"] = names
    if option.is_flag or option.count:
        described["values"] = "none"
    described["help"] = " ".join((option.help or "").split())
    return described


def _parameter(parameter: click.Parameter, of_cluster: str) -> Parameter:
    kind, choices = of_cluster or "text", []
    assert kind == "text" or kind in FROM_CLUSTER
    if isinstance(parameter.type, click.Choice):
        kind, choices = "choice", [str(each) for each in parameter.type.choices]
    elif isinstance(parameter.type, click.Path):
        kind = "files" if parameter.type.file_okay else "folders"
    return Parameter(
        names=[],
        values=kind,
        choices=choices,
        help="",
        is_repeatable=parameter.multiple or parameter.nargs == -1,
    )


# ------------------------------------------------------------------ the manual page


def manual(found: list[Found]) -> str:
    lines = [
        f'.TH BURSAR 1 "" "Bursar {__version__}" "Bursar"',
        ".ad l",  # long names of options leave no room to adjust lines
        ".nh",
        ".SH NAME",
        f"bursar \\- {_roff(TITLE[0].lower() + TITLE[1:].removesuffix('.'))}",
        ".SH SYNOPSIS",
        ".B bursar",
        "[OPTIONS] COMMAND [ARGS]...",
        ".br",
        ".B kubectl bursar",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH OPTIONS",
        *_definitions(OPTIONS.items()),
        ".SH COMMANDS",
    ]
    for context, command in found[1:]:
        lines += [f".SS {_roff(_usage(context, command))}", *_paragraphs(command.help or "")]
        lines += _definitions(_records(context, command))
        examples = EXAMPLES.get(" ".join(path_of(context)), ())
        if examples:
            lines += [".PP", "Examples:", ".PP", ".nf", ".RS"]
            lines += [*map(_roff, examples), ".RE", ".fi"]
    lines += [".SH EXIT STATUS", _roff(EXIT_CODES.removeprefix("Exit codes: "))]
    lines += [".SH ENVIRONMENT", *_definitions(ENVIRONMENT.items())]
    lines += [".SH SEE ALSO", ".BR kubectl (1)"]
    return "\n".join(lines) + "\n"


def _usage(context: click.Context, command: click.Command) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _records(context: click.Context, command: click.Command) -> list[tuple[str, str]]:
    records = [each.get_help_record(context) for each in command.get_params(context)]
    return [record for record in records if record is not None]


def _definitions(entries: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in entries for line in (".TP", f".B {_roff(name)}", _roff(text))]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            rows = paragraph.removeprefix("\b\n").splitlines()
            lines += [".PP", ".nf", *map(_roff, rows), ".fi"]
        else:
            lines += [".PP", _roff(" ".join(paragraph.split()))]
    return lines


def _roff(text: str) -> str:
    """The text, in which no character is a command to the formatter."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def main(arguments: list[str]) -> int:
    made = pages()
    stored = {path.name: path.read_text() for path in FOLDER.glob("*")}
    if "--check" in arguments:
        if made != stored:
            print("stored pages differ from the commands: run `make pages`", file=sys.stderr)
        return int(made != stored)
    FOLDER.mkdir(exist_ok=True)
    for name in stored.keys() - made.keys():
        (FOLDER / name).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
