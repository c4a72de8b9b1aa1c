"""`bursar completion`: the script that teaches a shell our verbs and options."""

from typing import Final

import click
from click.shell_completion import get_completion_class

INSTALL: Final = {
    "bash": 'eval "$(bursar completion bash)"      # in ~/.bashrc; needs bash 4.4 or newer',
    "zsh": 'eval "$(bursar completion zsh)"       # in ~/.zshrc',
    "fish": "bursar completion fish | source      # in ~/.config/fish/config.fish",
}


@click.command(
    short_help="Print the shell completion script.",
    epilog="\b\n" + "\n".join(INSTALL.values()),
    context_settings={"max_content_width": 100},
)
@click.argument("shell", type=click.Choice(sorted(INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    completer = get_completion_class(shell)
    assert completer is not None
    root = ctx.find_root()
    click.echo(completer(root.command, {}, "bursar", "_BURSAR_COMPLETE").source())
