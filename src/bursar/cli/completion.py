"""`bursar completion`: the completion script of a shell, for commands and options."""

from typing import Final

import click

from bursar.cli.errors.exit_codes import OK
from bursar.cli.help.pages import SHELLS, script_name, stored

INSTALL: Final = {
    "bash": 'eval "$(bursar completion bash)"      # in ~/.bashrc; needs bash 4.4 or newer',
    "zsh": 'eval "$(bursar completion zsh)"       # in ~/.zshrc',
    "fish": "bursar completion fish | source      # in ~/.config/fish/config.fish",
}


@click.command(
    short_help="Print the shell completion script.",
    epilog="\b\nTo use it:\n" + "\n".join(f"  {line}" for line in INSTALL.values()),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script that completes commands, options and values in SHELL.

    It completes file names, contexts of the kubeconfig, and namespaces and
    names of objects of the cluster, if that answers within 1.5 seconds.
    """
    click.echo(stored(script_name(shell)), nl=False)
    return OK
