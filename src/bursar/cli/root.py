"""The root of the command line. Verbs are imported only when used, so each starts quickly."""

import click

from bursar import __version__
from bursar.cli.help.front_page import TITLE, VERBS, as_typed, front_page
from bursar.cli.verbs import Verbs


class _Root(Verbs):
    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(as_typed(front_page(), ctx.command_path))


@click.group(
    cls=_Root,
    lazy={verb: place for verb, (place, _) in VERBS.items()},
    help=TITLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="bursar %(version)s")
def bursar() -> None:
    pass
