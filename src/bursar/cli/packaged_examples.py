"""`bursar examples`: list and copy the example files that are packaged with Bursar."""

from difflib import get_close_matches
from pathlib import Path

import click

from bursar.adapters.files.examples import copy_examples, example_lines
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.options import flag
from bursar.cli.output.formats import Output, emit_document, output_option, printable
from bursar.cli.verbs import Verbs
from bursar.core.model.problem import counted


@click.group(
    cls=Verbs, short_help="List the example files, and copy them.", invoke_without_command=True
)
@click.pass_context
def examples(ctx: click.Context) -> int:
    """List the example files that are packaged with Bursar, or copy them into a folder.

    The commands of each --help and of the documentation use these files below
    the folder examples.
    """
    return _list(Output.TABLE) if ctx.invoked_subcommand is None else OK


@examples.command(name="list", short_help="List the examples, with a line about each.")
@output_option
def list_(output: Output) -> int:
    """List the examples: files, and folders of files."""
    return _list(output)


def _list(output: Output) -> int:
    lines = example_lines()
    if output is Output.TABLE:
        width = max(map(len, lines))
        for name, line in lines.items():
            click.echo(f"{name:<{width}}  {line}")
    else:
        emit_document([{"name": name, "about": line} for name, line in lines.items()], output)
    return OK


@examples.command(short_help="Copy examples into a folder.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@flag("--force", "Overwrite files that are already in the folder.")
def copy(names: tuple[str, ...], folder: Path, *, force: bool) -> int:
    """Copy the examples called NAME, by default all of them, into the folder DIR.

    DIR is created if it does not exist. If one of the files is there already,
    nothing is copied.
    """
    known = example_lines()
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ": see bursar examples"
            raise BadInputError(f"no example is called {printable(name)}{meant}")
    copied = copy_examples(names or tuple(known), folder, is_forced=force)
    click.echo(f"{counted(len(copied), 'file')} copied to {printable(str(folder))}")
    return OK
