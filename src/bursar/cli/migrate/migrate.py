"""`bursar migrate`: the group of commands that move a cluster to Bursar."""

import click

from bursar.cli.verbs import Verbs


@click.group(
    cls=Verbs,
    lazy={
        "aaq": "bursar.cli.migrate.aaq:aaq",
        "resourcequotas": "bursar.cli.migrate.resourcequotas:resourcequotas",
    },
    short_help="Move to Bursar from AAQ, ResourceQuotas or ClusterResourceQuotas.",
)
def migrate() -> None:
    """Move a cluster to Bursar: from AAQ and back, or from native quotas."""
