"""A group of commands that are imported only when they are used.

`bursar` itself and its groups are of this class. It also gives each command the examples that
`cli/help/examples.py` has for it, and suggests commands when a name is misspelt.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click
import click.parser

from bursar.cli.help.examples import EXAMPLES


class _NoSuchOption(click.NoSuchOption):
    """click's error for an unknown option, with suggestions only for a long option.

    click takes `-f` for a long option first, and discards the error with its suggestions. The
    search for suggestions takes as long as the start of Python.
    """

    def __init__(
        self,
        option_name: str,
        message: str | None = None,
        possibilities: Iterable[str] | None = None,
        ctx: click.Context | None = None,
    ) -> None:
        known = possibilities if option_name.startswith("--") else None
        super().__init__(option_name, message, known, ctx)


click.parser.NoSuchOption = _NoSuchOption  # type: ignore[attr-defined]


class Verbs(click.Group):
    """A group; `lazy` has the place of each command that is not imported yet.

    A place is `module:attribute`. Commands that are added as click's decorators do it come first.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **more: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **more)
        self.lazy = dict(lazy or {})
        self.path = ""
        """The names that lead here from `bursar`, separated by blanks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in self.lazy:
            module, _, attribute = self.lazy[cmd_name].partition(":")
            command = getattr(import_module(module), attribute)
            assert isinstance(command, click.Command)
        if command is not None:
            _prepare(command, f"{self.path} {cmd_name}".strip())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click knows only the commands that have been imported, and suggests none of the others.
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            raise click.UsageError(_no_such_command(args[0], self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


def _prepare(command: click.Command, path: str) -> None:
    """Add the examples of a command; commands of a plain group are prepared with it."""
    if isinstance(command, Verbs):
        command.path = path
    elif isinstance(command, click.Group):
        for name, each in command.commands.items():
            _prepare(each, f"{path} {name}")
    examples = EXAMPLES.get(path, ())
    if examples and "Examples:" not in (command.epilog or ""):
        # click wraps no lines below \b.
        section = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
        command.epilog = f"{command.epilog}\n\n{section}" if command.epilog else section


def _no_such_command(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    text = f"No such command {name!r}."
    near = get_close_matches(name, known)
    if not near:
        return text
    return f"{text} Did you mean {' or '.join(map(repr, sorted(near)))}?"
