"""`bursar manifests`: what to apply to a cluster so that its pods are gated, rewritten or shown."""

from enum import Enum
from typing import TYPE_CHECKING, Final

import click

from bursar.app.capacity.places import PRESET_CONFIG, PRESET_NAMESPACE
from bursar.app.devices.defaults import KUBELET_FOLDER, SOCKET_FOLDER, PodsFrom
from bursar.app.extender.names import SCHEDULER_CA_CONFIG, SCHEDULER_USER
from bursar.app.install.access import access_documents, capacity_documents
from bursar.app.install.admission import (
    GatingSettings,
    policy_documents,
    scope_policy_documents,
    waiting_pods_documents,
    webhook_documents,
)
from bursar.app.install.cert_manager import injection
from bursar.app.install.defaults import (
    KOORDINATORS_SCHEDULER,
    KUBEVIRT_NAMESPACE,
    OVERHEAD_CPU,
    OVERHEAD_MEMORY,
)
from bursar.app.install.documents import Document, Endpoint, wanted_definitions
from bursar.app.install.workloads import controller_documents
from bursar.app.install.workloads import webhook_documents as webhook_workload_documents
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.install.cluster_version import (
    gates_by_policies,
    minor_version,
    require_known_kinds,
)
from bursar.cli.install.option_parts import options_without_effect
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.cli.install.workload_arguments import (
    Chosen,
    workload_options,
    workload_settings,
)
from bursar.cli.options import flag, one_of, shown, together
from bursar.core.model.selectors.selector import (
    LabelExpression,
    LabelSelector,
    Operator,
    SelectorError,
)
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.names import RUNTIME_CLASS, VM_RESOURCE
from bursar.wire.documents.json_writing import json_text
from bursar.wire.documents.yaml_writing import yaml_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WITHOUT_WEBHOOK: Final = ("crds", "rbac", "controller", "policies")
"""Printed if no part is named: all that quotas need. The policies gate no pod before the controller
is ready."""
BY_WEBHOOK: Final = ("crds", "rbac", "controller", "webhook", "webhooks")
"""Printed instead for a version of Kubernetes whose policies cannot gate pods."""
PARTS: Final = (
    *("crds", "rbac", "capacity", "controller", "webhook", "policies", "webhooks"),
    *("peerpods", "kubevirt", "agent", "extender", "certificates", "monitoring", "dashboard"),
    *("removal", "operator"),
)
"""In the order in which they are printed: a process gets all its permissions before it starts, and
pods are gated last."""
CA_BYTES_MAX: Final = 1 << 20

_WRITTEN_OPERATORS: Final = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


class Resizes(Enum):
    """What the policies do about a resize that makes a running pod larger."""

    REFUSE = "refuse"
    ALLOW = "allow"


_agent_options: Final = together(
    one_of("--pods-from", PodsFrom.KUBELET, "Agent: where it reads the pods of its node from."),
    shown("--socket-dir", SOCKET_FOLDER, "Agent: folder on the host for its socket."),
    shown("--kubelet-dir", KUBELET_FOLDER, "Agent: kubelet's --root-dir."),
    click.option(
        "--kubelet-cert",
        default="",
        help="Agent: file on the host with the CA of kubelet's serving certificate.",
    ),
    click.option(
        "--sources-config",
        default="",
        help="Agent: ConfigMap that holds the allocators under the key sources.yaml.",
    ),
    flag("--host-network", "Agent: use the host's network."),
    flag("--disk", "Agent: account for pods' local ephemeral storage. It reads pods' folders."),
    click.option(
        *("--device-writer", "device_writers"),
        multiple=True,
        help="Agent: user that may record the devices of pods. Repeatable. "
        f"Default: {KOORDINATORS_SCHEDULER}.",
    ),
    click.option(
        *("--agent-option", "agent_options"),
        multiple=True,
        help="Agent: a further option of bursar agent, --NAME=VALUE. Repeatable.",
    ),
)


_extender_options: Final = together(
    shown(
        "--scheduler-ca-config",
        SCHEDULER_CA_CONFIG,
        "Extender: ConfigMap with ca.crt, the CA of the scheduler's client certificate.",
    ),
    click.option(
        *("--scheduler-client-name", "scheduler_names"),
        multiple=True,
        metavar="NAME",
        help="Extender: name that the scheduler's client certificate must have. Repeatable. "
        f"Default: {SCHEDULER_USER}.",
    ),
    click.option(
        *("--extender-option", "extender_options"),
        multiple=True,
        help="Extender: a further option of bursar extender, --NAME=VALUE. Repeatable.",
    ),
)


@click.command(short_help="Print the manifests that install parts of Bursar.")
@click.argument("parts", nargs=-1, metavar="[PART]...", type=click.Choice(PARTS))
@shown("-n --namespace", "aaq", "Namespace of the installation.")
@click.option(
    "-l",
    "--selector",
    help="Gate namespaces with these labels; '' for all. "
    "Default: application-aware-quota/enable-gating.",
)
@flag("--without-cluster-quota", "Leave out cluster quotas.")
@flag(
    "--with-clusterresourcequotas",
    "For policies: allow cluster quotas to limit what OpenShift's ClusterResourceQuota enforces. "
    "Webhooks find out by themselves whether the cluster has it.",
)
@one_of(
    "--resizes",
    Resizes.REFUSE,
    "Policies: whether a resize may increase requests or limits. No quota is asked.",
)
@flag("--configuration-exists", "Webhooks: deny a second AAQ object.")
@click.option(
    "--ca-bundle",
    type=click.Path(dir_okay=False),
    help="Webhooks: CA certificates (PEM) that sign the webhook's certificate.",
)
@click.option(
    "--url", default="", help="Webhooks: URL of the webhook, if it is not behind a Service."
)
@click.option(
    "--runtime-class",
    "runtime_classes",
    multiple=True,
    help=f"Peer pods: RuntimeClass of peer pods. Repeatable. Default: {RUNTIME_CLASS}.",
)
@shown("--vm-resource", VM_RESOURCE, "Peer pods: extended resource that stands for one VM.")
@click.option(
    "--node-label",
    "node_labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Peer pods: label of nodes that can run them. Repeatable.",
)
@flag("--without-runtime-class", "Peer pods: leave out the RuntimeClass; it exists.")
@click.option(
    "--handler", default="", help="Peer pods: handler of the RuntimeClass. Default: its name."
)
@shown("--overhead-cpu", str(OVERHEAD_CPU), "Peer pods: CPU that one pod costs the worker node.")
@shown(
    "--overhead-memory",
    str(OVERHEAD_MEMORY),
    "Peer pods: memory that one pod costs the worker node.",
)
@flag("--all-pods", "Peer pods: review every pod; another webhook may set the class.")
@flag("--without-webhook", "Peer pods: a policy that only adds the VM resource.")
@flag("--upstream-webhook", "Peer pods: only the policies, for use beside upstream's webhook.")
@shown(
    "--peerpods-namespace",
    PRESET_NAMESPACE,
    f"Capacity: namespace of the ConfigMap {PRESET_CONFIG}.",
)
@shown("--kubevirt-namespace", KUBEVIRT_NAMESPACE, "KubeVirt: namespace of its service accounts.")
@click.option(
    *("--kubernetes", "version"),
    default="",
    metavar="VERSION",
    help="Version of the cluster, such as 1.34: print no kind that it lacks. Default: the newest.",
)
@workload_options
@_agent_options
@_extender_options
@click.option(
    "--aaq",
    "aaq_file",
    type=click.Path(allow_dash=True),
    help="Print what bursar operator installs for the AAQ object in this file, and nothing else.",
)
@shown("-o --output", "yaml", "Format of the output.", type=click.Choice(["yaml", "json"]))
def manifests(
    parts: tuple[str, ...],
    output: str,
    ca_bundle: str | None,
    url: str,
    aaq_file: str | None,
    version: str,
    **chosen: str | int | bool | tuple[str, ...] | None,
) -> int:
    """Print manifests for kubectl apply. Nothing is sent anywhere.

    Without a part: crds, rbac, controller and policies, which make pods wait
    for quotas without a webhook. No pod is gated before the controller is
    ready. With --kubernetes and a version before 1.36: webhook and webhooks
    instead of policies. The manifests of a process get the options that match the
    other parts, so name all parts in one command.

    \b
    crds          definitions of quotas, counting policies and ClusterResources
    rbac          namespace, service accounts and roles
    controller    Deployment of bursar controller
    webhook       Deployment of bursar webhook; needed by webhooks and peerpods
    policies      gate pods without a webhook
    webhooks      gate pods, check resizes and quotas by the webhook
    peerpods      rewrite peer pods by the webhook
    capacity      let the controller keep the capacity of nodes
    kubevirt      keep tenants from forging pods of VMs
    agent         DaemonSet of bursar agent
    extender      Deployment of bursar extender, for cluster-level resources
    certificates  Certificates of cert-manager; needed with --cert-manager
    monitoring    ServiceMonitors and alerts for the Prometheus operator
    dashboard     ConfigMap with a dashboard for Grafana
    removal       Job that stops gating and releases pods, before you delete the rest
    operator      Deployment of bursar operator, which installs the rest by an AAQ object
    """  # noqa: D301 - click keeps the lines of a paragraph that begins with this character
    if url and not url.startswith("https://"):
        raise click.UsageError("--url must start with https://")
    minor = minor_version(version)
    if aaq_file is not None:
        if parts:
            raise click.UsageError("--aaq prints all objects of an installation: name no part")
        from bursar.cli.install.operator_part import installed_documents  # noqa: PLC0415 - large

        has_policies = gates_by_policies(minor)
        _emit(installed_documents(aaq_file, chosen, has_mutating_policies=has_policies), output)
        return OK
    named = parts or (WITHOUT_WEBHOOK if gates_by_policies(minor) else BY_WEBHOOK)
    wanted = dict.fromkeys(part for part in PARTS if part in named)
    for problem in options_without_effect(click.get_current_context(), wanted):
        click.echo(f"bursar: {problem}", err=True)
    settings = _settings(chosen, has_webhooks="webhooks" in wanted)
    endpoint = Endpoint(
        ca_bundle=_certificates(ca_bundle),
        url=url,
        annotations=injection(settings.namespace) if chosen["cert_manager"] else {},
    )
    made_here: Mapping[str, Callable[[], tuple[Document, ...]]] = {
        "crds": lambda: _definitions(settings),
        "rbac": lambda: access_documents(settings, has_agent="agent" in wanted),
        "controller": lambda: controller_documents(workload_settings(chosen, wanted)),
        "webhook": lambda: webhook_workload_documents(workload_settings(chosen, wanted)),
        "policies": lambda: policy_documents(settings),
        "webhooks": lambda: (
            *webhook_documents(settings, endpoint),
            *(() if "policies" in wanted else scope_policy_documents(settings)),
            *(() if "policies" in wanted else waiting_pods_documents(settings)),
        ),
        "capacity": lambda: capacity_documents(settings, str(chosen["peerpods_namespace"])),
    }

    def documents_of(part: str) -> tuple[Document, ...]:
        if part in made_here:
            return made_here[part]()
        from bursar.cli.install.further_parts import PartsRequest, further_documents  # noqa: PLC0415 - large

        asked = PartsRequest(chosen=chosen, parts=wanted, gating=settings, endpoint=endpoint)
        return further_documents(part, asked)

    documents = [document for part in wanted for document in documents_of(part)]
    require_known_kinds(documents, minor)
    _emit(documents, output)
    return OK


def _settings(chosen: Chosen, *, has_webhooks: bool) -> GatingSettings:
    selector = chosen["selector"]
    try:
        return GatingSettings(
            namespace=str(chosen["namespace"]),
            namespace_selector=_label_selector(selector) if isinstance(selector, str) else None,
            allow_cluster_quota=not chosen["without_cluster_quota"],
            has_cluster_resource_quotas=bool(chosen["with_clusterresourcequotas"]),
            allow_growth=has_webhooks or Resizes(chosen["resizes"]) is Resizes.ALLOW,
            configuration_exists=bool(chosen["configuration_exists"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _label_selector(text: str) -> LabelSelector:
    """The selector in the form that API objects carry."""
    expressions = []
    for wanted in parse_selector(text).requirements:
        operator = _WRITTEN_OPERATORS.get(wanted.operator)
        if operator is None:
            raise SelectorError(f"{wanted}: namespaces cannot be selected by greater or less")
        values = tuple(sorted(wanted.values))
        expressions.append(LabelExpression(key=wanted.key, operator=operator, values=values))
    return LabelSelector(match_expressions=tuple(expressions))


def _certificates(path: str | None) -> bytes:
    if path is None:
        return b""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            content = file.read(CA_BYTES_MAX + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    if len(content) > CA_BYTES_MAX or b"-----BEGIN CERTIFICATE-----" not in content:
        raise BadInputError(f"{path}: not a PEM file with certificates")
    if b"PRIVATE KEY-----" in content:
        raise BadInputError(f"{path}: holds a private key; give certificates only")
    return content


def _definitions(settings: GatingSettings) -> tuple[Document, ...]:
    has_cluster_quota = settings.allow_cluster_quota
    return wanted_definitions(packaged_definitions(), has_cluster_quota=has_cluster_quota)


def _emit(documents: list[Document], output: str) -> None:
    if output == "json":
        click.echo(json_text({"apiVersion": "v1", "kind": "List", "items": documents}))
    else:
        click.echo(yaml_stream(documents), nl=False)
