"""The API server's verdict on a manifest: its answer to a strict create, and what is left open.

A verdict covers decoding, defaults and validation of one version of Kubernetes with its default
feature gates. It does not cover admission: plugins that read the cluster, webhooks and policies.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.pod import Pod
from bursar.core.model.problem import Problem
from bursar.wire.documents.tree import Value
from bursar.wire.validation.jobs import cron_job_problems, job_problems
from bursar.wire.validation.pods.annotations import TOLERATIONS
from bursar.wire.validation.pods.pod import pod_problems
from bursar.wire.validation.pods.spec import visited
from bursar.wire.validation.section import Section
from bursar.wire.validation.strict import strict_error, type_errors, unknown_fields
from bursar.wire.validation.workloads import (
    daemon_set_problems,
    deployment_problems,
    pod_template_problems,
    replica_set_problems,
    replication_controller_problems,
    stateful_set_problems,
)

Rules: TypeAlias = Callable[[Section, Pod], Iterator[Problem]]

_RULES: Final[dict[str, Rules]] = {
    "Pod": pod_problems,
    "PodTemplate": pod_template_problems,
    "ReplicationController": replication_controller_problems,
    "ReplicaSet": replica_set_problems,
    "Deployment": deployment_problems,
    "StatefulSet": stateful_set_problems,
    "DaemonSet": daemon_set_problems,
    "Job": job_problems,
    "CronJob": cron_job_problems,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    errors: tuple[str, ...]
    """What the server refuses, in its words; each text once."""
    not_checked: tuple[str, ...]
    """Fields of this object that the server checks and this verdict does not."""


def verdict_on(kind: str, value: dict[str, Value], pod: Pod) -> Verdict:
    """Judge an object of `kind`. `pod` is the pod, or that of its template, before defaults.

    The server stops at unknown fields. The other errors are listed as well, because they come up
    next.
    """
    mistyped = type_errors(kind, value)
    unknown = unknown_fields(kind, value)
    errors = [strict_error(unknown)] if unknown else []
    if mistyped:
        return Verdict(errors=(*mistyped, *errors), not_checked=())
    document = Section(value, "")
    errors += [str(problem) for problem in _RULES[kind](document, pod)]
    return Verdict(
        errors=tuple(dict.fromkeys(errors)), not_checked=tuple(_not_checked(kind, document))
    )


def _not_checked(kind: str, document: Section) -> Iterator[str]:
    if kind == "CronJob" and (zone := document.child("spec").text("timeZone")):
        yield f'spec.timeZone: whether the API server knows a time zone "{zone}"'
    path, template = _template(kind, document)
    for container in visited(template.child("spec")):
        if container.child("securityContext").flag("privileged"):
            yield "privileged containers: whether the API server runs with --allow-privileged"
            break
    if TOLERATIONS in template.child("metadata").text_map("annotations"):
        yield f"{path}[{TOLERATIONS}]: its content"


def _template(kind: str, document: Section) -> tuple[str, Section]:
    """Where the annotations of the pod are in this object, and the section that has them."""
    if kind == "CronJob":
        document = document.child("spec").child("jobTemplate")
    if kind != "Pod":
        document = (document if kind == "PodTemplate" else document.child("spec")).child("template")
    return document.at("metadata.annotations"), document
