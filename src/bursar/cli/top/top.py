"""`bursar top`: the group. A subverb is imported only when it is used, so each starts quickly."""

from typing import Final

import click

from bursar.cli.kinds import KindNames

SUBVERBS: Final = (
    "devices",
    "disk",
    "licences",
    "namespaces",
    "nodes",
    "peerpods",
    "pods",
    "quotas",
)
"""Each subverb is in the module of its name."""


@click.group(
    cls=KindNames,
    lazy={name: f"bursar.cli.top.{name}:{name}" for name in SUBVERBS},
    short_help="Show what is requested, used and free.",
)
def top() -> None:
    """Show how much of each resource there is, what pods request and use, and what is free.

    Requests and limits count as the scheduler counts them. Columns with the real usage
    are there if a metrics server answers.
    """
