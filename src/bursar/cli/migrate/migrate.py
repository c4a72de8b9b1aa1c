"""`bursar migrate`: the group of commands that move a cluster to Bursar."""

import click

from bursar.cli.migrate.aaq import aaq
from bursar.cli.migrate.resourcequotas import resourcequotas


@click.group(short_help="Move to Bursar from AAQ, ResourceQuotas or ClusterResourceQuotas.")
def migrate() -> None:
    """Move a cluster to Bursar: from AAQ and back, or from native quotas."""


migrate.add_command(aaq)
migrate.add_command(resourcequotas)
