"""The root of the command line. Verbs are imported only when used, so help is quick."""

from importlib import import_module
from typing import Final

import click

from bursar import __version__

# Verb -> where its command lives, and the line `bursar --help` shows without importing it.
VERBS: Final = {
    "completion": ("bursar.cli.completion:completion", "Print the shell completion script."),
    "describe": ("bursar.cli.describe:describe", "Show what pods and nodes in files consume."),
    "quantity": ("bursar.cli.quantity:quantity", "Read quantities as Kubernetes does."),
}


class LazyVerbs(click.Group):
    """A group that knows its verbs by name and imports one only to run or complete it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in VERBS.items()])


@click.group(
    cls=LazyVerbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 the answer is no, 2 bad input, 130 interrupted.",
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def bursar() -> None:
    """One set of books for everything a Kubernetes pod consumes."""
