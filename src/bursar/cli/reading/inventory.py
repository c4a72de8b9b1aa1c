"""The inventory of what a command has read. Slow to import, and not needed to print the help."""

import click

from bursar.adapters.files.manifests import Manifests
from bursar.app.counting.feeds import Counting
from bursar.app.quota.views.inventory import Inventory, inventory_of
from bursar.cli.output.formats import printable


def inventory_in(manifests: Manifests, counting: Counting) -> Inventory:
    return inventory_of(
        manifests.pods,
        manifests.namespaces,
        manifests.quotas,
        counting=counting,
        bodies=manifests.bodies,
    )


def print_problems(inventory: Inventory) -> None:
    """Say on standard error what was left out."""
    for problem in inventory.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
