"""`bursar doctor`: whether an installation works, and what the cluster's version lacks."""

from collections.abc import Sequence

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.doctor.doctor import examine
from bursar.app.doctor.findings import Finding, Severity
from bursar.app.names import OWN_NAMESPACE
from bursar.cli.errors.exit_codes import NO, OK
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.options import shown
from bursar.cli.output.formats import Output, printable
from bursar.cli.output.listing import Column, Format, Listing, Row, emit_listing, format_options

COLUMNS = (
    *(Column("CHECK"), Column("VERDICT"), Column("FINDING")),
    Column("WHAT TO DO", is_wide=True),
)


@click.command(short_help="Check an installation, and what the version of the cluster lacks.")
@shown("-n --namespace", OWN_NAMESPACE, "Namespace where Bursar is installed.")
@cluster_options
@format_options
def doctor(namespace: str, kubeconfig: str | None, context: str, format: Format) -> int:
    """Check the installation of Bursar in the cluster kubectl would talk to.

    Writes nothing. Exit code 1 if there is a problem: quotas that hold no pod
    back, pods that wait although no controller is there to release them, or a
    process without a right that it needs.
    """

    async def work() -> Sequence[Finding]:
        async with live_cluster(kubeconfig, context) as cluster:
            return await examine(cluster, namespace, SYSTEM_CLOCK.now(), packaged_definitions())

    findings = answer_of(work())
    rows = tuple(map(_row, findings))
    emit_listing(Listing(columns=COLUMNS, rows=rows, nothing="nothing was checked"), format)
    if format.output is Output.TABLE:
        _emit_advice(findings)
    return NO if any(each.severity is Severity.PROBLEM for each in findings) else OK


def _row(finding: Finding) -> Row:
    return Row(
        cells=(finding.check, finding.severity.value, finding.text, finding.advice or "-"),
        document=_as_dict(finding),
        name=f"check/{finding.check}",
    )


def _emit_advice(findings: Sequence[Finding]) -> None:
    """Below the table, since beside the findings it would be out of sight."""
    advised = [each for each in findings if each.advice]
    if advised:
        click.echo("\nWhat to do:")
    for each in advised:
        click.echo(f"  {each.check}: {printable(each.advice)}")


def _as_dict(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "verdict": finding.severity.value,
        "text": finding.text,
        "advice": finding.advice,
    }
