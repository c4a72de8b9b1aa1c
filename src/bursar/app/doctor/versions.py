"""What Bursar cannot do on older versions of Kubernetes."""

from dataclasses import dataclass
from typing import Final

from bursar.app.doctor.findings import Finding, Severity
from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE, NEWEST, OLDEST
from bursar.wire.cluster.server_version import ServerVersion


@dataclass(frozen=True, slots=True)
class Loss:
    """A feature that API servers have from some version on."""

    since: int
    """The first minor version that has it without further settings."""
    feature: str
    without: str
    """What differs without it."""


LOSSES: Final = (
    Loss(
        MUTATING_POLICIES_SINCE,
        "MutatingAdmissionPolicy v1",
        "policies cannot gate pods or rewrite peer pods: use the webhook",
    ),
    Loss(
        34,
        "pod-level resources",
        "the API server drops spec.resources of pods; quotas charge their containers",
    ),
    Loss(
        33,
        "pods/resize",
        "running pods cannot be resized, so there is no resize to check against a quota",
    ),
    Loss(
        33,
        "nodes/pods at kubelets",
        "kubelets require nodes/proxy, a right that the agent does not have: "
        "run it with --pods-from=api",
    ),
)


def losses(minor: int) -> tuple[Loss, ...]:
    """The features that a server of Kubernetes 1.`minor` lacks."""
    return tuple(each for each in LOSSES if minor < each.since)


def version_findings(server: ServerVersion) -> tuple[Finding, ...]:
    """Whether Bursar supports the version, and what is lost on it."""
    known = f"Kubernetes {server}"
    if server.major != 1 or server.minor < OLDEST:
        text = f"{known} is older than 1.{OLDEST}, the oldest version that Bursar supports"
        return (Finding("server", Severity.PROBLEM, text, "upgrade the cluster"),)
    if server.minor > NEWEST:
        text = f"{known} is newer than 1.{NEWEST}, the newest version that Bursar was tested on"
        return (Finding("server", Severity.WARNING, text, "look for a newer Bursar"),)
    lost = (
        Finding("server", Severity.NOTE, f"no {each.feature} before 1.{each.since}: {each.without}")
        for each in losses(server.minor)
    )
    return (Finding("server", Severity.OK, known), *lost)
