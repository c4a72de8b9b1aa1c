"""The root of the command line. Verbs are imported only when used, so each starts quickly."""

from importlib import import_module

import click

from bursar import __version__
from bursar.cli.front_page import TITLE, VERBS, front_page


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

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        formatter.write(front_page())


@click.group(
    cls=LazyVerbs,
    help=TITLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def bursar() -> None:
    pass
