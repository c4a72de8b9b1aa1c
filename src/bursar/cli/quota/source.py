"""Where the verbs about quotas read from: files, or else the cluster kubectl would talk to."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import click

from bursar.adapters.files.manifests import Manifests, read_manifests
from bursar.app.counting.feeds import Counting
from bursar.app.quota.inventory import Inventory, inventory_of, kept_kinds, read_inventory
from bursar.cli import options
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.output.formats import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the command line says about where to read."""

    files: Sequence[str]
    kubeconfig: str | None
    context: str
    counting: Counting
    """Counters that know nothing yet. Reading tells them what they need."""

    def __str__(self) -> str:
        return ", ".join(map(printable, self.files)) or "the cluster"

    def read(self, *, namespace: str = "") -> Inventory:
        """Read it all, or of a cluster what one namespace needs; tell what was left out."""
        require_files_or_cluster(self.files, self.kubeconfig, self.context)
        if self.files:
            inventory = _read_files(self.files, self.counting)
        else:
            inventory = answer_of(self._read_cluster(namespace))
        for problem in inventory.problems:
            click.echo(f"bursar: {printable(problem)}", err=True)
        return inventory

    async def _read_cluster(self, namespace: str) -> Inventory:
        async with live_cluster(self.kubeconfig, self.context) as cluster:
            with _shown_progress() as progress:
                return await read_inventory(
                    cluster, namespace=namespace, counting=self.counting, progress=progress
                )


source_options: Final = options.together(
    options.files("Read manifests instead of a cluster: files, folders, or -. Repeatable."),
    cluster_options,
)
namespace_options: Final = options.together(
    click.option("-n", "--namespace", help="Only this namespace."),
    click.option(
        "-A", "--all-namespaces", is_flag=True, help="All namespaces. This is the default."
    ),
)


def require_files_or_cluster(files: Sequence[str], kubeconfig: str | None, context: str) -> None:
    if files and (kubeconfig is not None or context):
        raise click.UsageError("-f reads files; --kubeconfig and --context, a cluster")


def require_one_choice(namespace: str | None, *, all_namespaces: bool) -> None:
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n is for one namespace, -A for all")


def _read_files(files: Sequence[str], counting: Counting) -> Inventory:
    manifests = read_manifests(files, sys.stdin.buffer, kept=kept_kinds(counting))
    _tell_passed_over(manifests)
    return inventory_of(
        manifests.pods,
        manifests.namespaces,
        manifests.quotas,
        counting=counting,
        bodies=manifests.bodies,
    )


def _tell_passed_over(manifests: Manifests) -> None:
    """Workloads, too: their pods count once they exist, and may be among the files as well."""
    counts = Counter(dict(manifests.skipped))
    counts.update(template.owner_kind for template in manifests.templates)
    if counts:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        click.echo(f"bursar: passed over: {printable(listed)}", err=True)


@contextmanager
def _shown_progress() -> Iterator[Callable[[str, int], None]]:
    """How far the reading is, on a line of its own that disappears; only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _kind, _count: None
        return

    def show(kind: str, count: int) -> None:
        click.echo(f"\r\x1b[Kreading {kind}: {count}", err=True, nl=False)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)
