"""Check that an agent would start with the arguments of a manifest, before the manifest exists."""

import re
from collections.abc import Sequence
from typing import Final

import click

from bursar.app.install.agent import AgentInstallation, agent_arguments
from bursar.cli.processes.agent import agent
from bursar.cli.processes.options.agent import settings_from

ANY_VALUE: Final = "127.0.0.1"
"""Replaces values that are known only on the node: its name and addresses."""

_FILLED_IN: Final = re.compile(r"\$\([A-Z_]+\)")


def check_arguments(installation: AgentInstallation) -> None:
    """Raise `click.UsageError` if `bursar agent` would refuse the arguments."""
    for option in installation.options:
        if not option.startswith("--") or option in {"--", "--help"}:
            problem = "is not an option of bursar agent; --NAME=VALUE is expected"
            raise click.UsageError(f"--agent-option: {option} {problem}")
        try:
            _read([option])
        except click.UsageError as error:
            raise click.UsageError(f"--agent-option: {error.format_message()}") from None
    try:
        context = _read(agent_arguments(installation))
        with context:
            settings_from(context.params)
    except click.UsageError as error:
        raise click.UsageError(f"bursar agent would not start: {error.format_message()}") from None


def _read(arguments: Sequence[str]) -> click.Context:
    return agent.make_context("agent", [_FILLED_IN.sub(ANY_VALUE, each) for each in arguments])
