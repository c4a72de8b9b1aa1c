"""The options of verbs that read files or a cluster and select nothing in them."""

from collections.abc import Sequence
from typing import Final

import click

from bursar.cli import options
from bursar.cli.live_cluster import cluster_options

source_options: Final = options.together(
    options.files("Read manifests instead of a cluster: files, folders, or -. Repeatable."),
    cluster_options,
)


def require_files_or_cluster(files: Sequence[str], kubeconfig: str | None, context: str) -> None:
    """Raise `UsageError` if both are named."""
    if files and (kubeconfig is not None or context):
        raise click.UsageError("-f reads files; --kubeconfig and --context, a cluster")
