"""`bursar top disk`: how much of nodes' disks pods use, and which pods the kubelet will evict."""

import asyncio
from typing import Any

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.storage.cluster import ClusterDisks
from bursar.app.storage.document import node_document
from bursar.cli.errors.exit_codes import NO, OK
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.options import duration, path, shown
from bursar.cli.output.formats import Output, emit_document, emit_table, output_option, printable
from bursar.cli.storage.disk_options import DEFAULT_THRESHOLDS, thresholds_from
from bursar.cli.storage.view import NODE_COLUMNS, POD_COLUMNS, node_rows, pod_rows
from bursar.core.storage.pressure import Threshold


@click.command(short_help="Show local ephemeral storage of pods, and which of them are evicted.")
@cluster_options
@click.option("--node", default="", help="Show this node only.")
@click.option("-n", "--namespace", default="", help="Show pods of this namespace only.")
@duration("--sample", "0s", "Read twice, this far apart, to show how fast pods grow.")
@click.option(
    "--agent",
    "address",
    default="",
    help="Address of a node's agent to read instead of the cluster, such as 127.0.0.1:9479.",
)
@path("--token-file", "File with the bearer token for --agent.", "")
@shown(
    "--eviction-hard",
    DEFAULT_THRESHOLDS,
    "The kubelets' hard eviction thresholds.",
    callback=lambda _, __, text: thresholds_from(text),
)
@click.option(
    "--check", "is_check", is_flag=True, help="Exit with code 1 if a pod is over a limit."
)
@output_option
def disk(  # noqa: PLR0913 - one for each option
    *,
    kubeconfig: str | None,
    context: str,
    node: str,
    namespace: str,
    sample: float,
    address: str,
    token_file: str,
    eviction_hard: tuple[Threshold, ...],
    is_check: bool,
    output: Output,
) -> int:
    """Show what pods use of their nodes' disks, which pods the kubelet will evict, and when.

    The command reads the kubelets' own figures through the API server, with your
    right to `get` `nodes/proxy`. They are up to two minutes old. With --agent, it
    reads what `bursar agent --disk` has measured on its node.
    """
    if address:
        if node or sample or kubeconfig is not None or context:
            raise click.UsageError(
                "--agent reads one agent; it excludes --node, --sample, --kubeconfig and --context"
            )
        from bursar.cli.storage.agent_report import read_agent  # noqa: PLC0415 - HTTP client

        nodes = [asyncio.run(read_agent(address, token_file))]
    else:
        work = _read_cluster(kubeconfig, context, node, sample, eviction_hard)
        nodes = answer_of(work)
    for each in nodes:
        if each["problem"]:
            line = f"{each['node']}: {each['problem']}"
            click.echo(f"bursar: {printable(line)}", err=True)
    _show(nodes, namespace, output)
    shown_pods = [pod for each in nodes for pod in each["pods"] if _is_shown(pod, namespace)]
    return NO if is_check and any(pod["evicted"] for pod in shown_pods) else OK


def _is_shown(pod: dict[str, Any], namespace: str) -> bool:
    return not namespace or pod["namespace"] == namespace


async def _read_cluster(
    kubeconfig: str | None,
    context: str,
    node: str,
    sample_s: float,
    thresholds: tuple[Threshold, ...],
) -> list[dict[str, Any]]:
    async with live_cluster(kubeconfig, context) as cluster:
        disks = ClusterDisks(cluster, thresholds, node)
        if sample_s:
            await disks.read(_now_ms())
            await asyncio.sleep(sample_s)
        return [node_document(report) for report in await disks.read(_now_ms())]


def _now_ms() -> int:
    return int(SYSTEM_CLOCK.monotonic() * 1000)


def _show(nodes: list[dict[str, Any]], namespace: str, output: Output) -> None:
    if output is not Output.TABLE:
        shown_nodes = [
            {**each, "pods": [pod for pod in each["pods"] if _is_shown(pod, namespace)]}
            for each in nodes
        ]
        emit_document(shown_nodes, output)
        return
    rows = list(pod_rows(nodes, namespace))
    if rows:
        emit_table(POD_COLUMNS, rows)
        click.echo()
    else:
        click.echo("bursar: no pod uses a disk here", err=True)
    emit_table(NODE_COLUMNS, list(node_rows(nodes)))
