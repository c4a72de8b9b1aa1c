"""Options in the shapes that many verbs have, and several options as one decorator."""

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import click

from bursar.cli.output.durations import Duration

Command: TypeAlias = Callable[..., Any]
Option: TypeAlias = Callable[[Command], Command]


def together(*options: Option) -> Option:
    """All options as one decorator, in the order in which `--help` lists them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def shown(names: str, default: object, help: str, **more: Any) -> Option:  # noqa: ANN401 - click's
    """An option with a default that `--help` shows. Its names are separated by blanks."""
    return click.option(*names.split(), default=default, show_default=True, help=help, **more)


def one_of(names: str, default: Enum, help: str) -> Option:
    """An option whose value is one of an Enum; the command receives its text."""
    return shown(names, default.value, help, type=click.Choice([e.value for e in type(default)]))


def duration(name: str, default: str, help: str, **more: Any) -> Option:  # noqa: ANN401 - click's
    return shown(name, default, help, type=Duration(), **more)


def flag(name: str, help: str) -> Option:
    return click.option(name, is_flag=True, help=help)


def path(names: str, help: str, default: str | None = None) -> Option:
    return click.option(*names.split(), type=click.Path(), default=default, help=help)


def files(help: str, *, required: bool = False, name: str = "files") -> Option:
    """`-f/--filename`; the command receives `files: tuple[str, ...]`.

    It has another `name` if the files are not read instead of a cluster.
    """
    return click.option(
        *("-f", "--filename", name),
        multiple=True,
        required=required,
        type=click.Path(allow_dash=True),
        help=help,
    )


def cluster(kubeconfig_help: str) -> Option:
    """`--kubeconfig` and `--context`; the command receives a `str | None` and a `str`."""
    context_help = "Context of the kubeconfig to use. Default: its current context."
    return together(
        path("--kubeconfig", kubeconfig_help),
        click.option("--context", default="", metavar="NAME", help=context_help),
    )
