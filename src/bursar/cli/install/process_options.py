"""Whether a process knows the options that a manifest starts it with."""

from collections.abc import Iterable, Iterator
from typing import Final

import click

from bursar.cli.verbs import Verbs

PLACES: Final = {
    "controller": "bursar.cli.processes.controller:controller",
    "webhook": "bursar.cli.processes.webhook:webhook",
    "extender": "bursar.cli.pools.extender:extender",
}


def require_known(process: str, given: Iterable[str]) -> None:
    """Raises `click.UsageError` for an option that the process does not have.

    Values are not checked: a file or an address is known in the cluster only.
    """
    command = Verbs(lazy=PLACES).get_command(click.Context(click.Command("bursar")), process)
    assert command is not None, f"{process} is one of PLACES"
    for option in given:
        if not option.startswith("--") or option in {"--", "--help"}:
            raise click.UsageError(
                f"--{process}-option: {option!r} is not an option of bursar {process}; "
                "--NAME=VALUE is expected"
            )
        parser = command.make_parser(click.Context(command))
        try:
            parser.parse_args([option])
        except click.NoSuchOption as error:
            raise click.UsageError(_no_such_option(process, error, command.params)) from None
        except click.UsageError as error:
            raise click.UsageError(f"--{process}-option: {error.format_message()}") from None


def _no_such_option(
    process: str, error: click.NoSuchOption, known: Iterable[click.Parameter]
) -> str:
    text = f"--{process}-option: bursar {process} has no option {error.option_name!r}"
    near = [repr(each) for each in error.possibilities or ()]
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    return f"{text}; it has {', '.join(sorted(_long_names(known)))}"


def _long_names(options: Iterable[click.Parameter]) -> Iterator[str]:
    return (name for each in options for name in each.opts if name.startswith("--"))
