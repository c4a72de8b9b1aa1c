"""The parts of `bursar manifests` that are printed only if they are named.

They are apart from the others, so that a command that prints quotas' parts need not import them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import click

from bursar.app.devices.defaults import PodsFrom
from bursar.app.extender.manifests import ExtenderInstallation, extender_documents
from bursar.app.extender.names import SCHEDULER_USER
from bursar.app.install.admission import GatingSettings
from bursar.app.install.agent import AgentInstallation, agent_documents
from bursar.app.install.cert_manager import cert_manager_documents
from bursar.app.install.defaults import KOORDINATORS_SCHEDULER
from bursar.app.install.documents import Document, Endpoint
from bursar.app.install.grafana.dashboard import dashboard_documents
from bursar.app.install.monitoring import monitoring_documents
from bursar.app.install.peerpods import (
    PeerPodInstallation,
    peer_pod_documents,
    peer_pod_documents_beside_upstream,
    peer_pod_documents_without_webhook,
)
from bursar.app.install.policies.device_protection import device_protection_documents
from bursar.app.install.policies.launcher_protection import (
    LauncherProtection,
    launcher_protection_documents,
)
from bursar.app.install.removal import removal_documents
from bursar.cli.install.operator_part import operator_part
from bursar.cli.install.workload_arguments import Chosen, listed, workload_settings
from bursar.core.model.quantity import Quantity, QuantityError
from bursar.core.peerpods.names import RUNTIME_CLASS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsRequest:
    """The options of the command line that decide about the documents of a part."""

    chosen: Chosen
    parts: Collection[str]
    gating: GatingSettings
    endpoint: Endpoint


def further_documents(part: str, request: PartsRequest) -> tuple[Document, ...]:
    """The documents of a part. Raises `click.UsageError`."""
    return _MAKERS[part](request)


def _peer_pods(request: PartsRequest) -> tuple[Document, ...]:
    chosen = request.chosen
    try:
        installation = PeerPodInstallation(
            namespace=str(chosen["namespace"]),
            runtime_classes=listed(chosen["runtime_classes"]) or (RUNTIME_CLASS,),
            vm_resource=str(chosen["vm_resource"]),
            node_selector=_labels(listed(chosen["node_labels"])),
            brings_classes=not chosen["without_runtime_class"],
            handler=str(chosen["handler"]),
            overhead_cpu=_amount(chosen, "overhead_cpu"),
            overhead_memory=_amount(chosen, "overhead_memory"),
            asks_about_all_pods=bool(chosen["all_pods"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if chosen["upstream_webhook"]:
        if chosen["without_webhook"]:
            raise click.UsageError("--without-webhook and --upstream-webhook exclude each other")
        return peer_pod_documents_beside_upstream(installation)
    if chosen["without_webhook"]:
        return peer_pod_documents_without_webhook(installation)
    return peer_pod_documents(installation, request.endpoint)


def _launcher_protection(request: PartsRequest) -> tuple[Document, ...]:
    try:
        protection = LauncherProtection(
            gating=request.gating, kubevirt_namespace=str(request.chosen["kubevirt_namespace"])
        )
    except ValueError as error:
        raise click.UsageError(f"--kubevirt-namespace: {error}") from None
    return launcher_protection_documents(protection)


def _agent(request: PartsRequest) -> tuple[Document, ...]:
    chosen = request.chosen
    try:
        installation = AgentInstallation(
            image=str(chosen["image"]),
            namespace=str(chosen["namespace"]),
            pods_from=PodsFrom(chosen["pods_from"]),
            socket_folder=str(chosen["socket_dir"]),
            kubelet_folder=str(chosen["kubelet_dir"]),
            kubelet_certificate=str(chosen["kubelet_cert"]),
            sources_config=str(chosen["sources_config"]),
            is_on_host_network=bool(chosen["host_network"]),
            accounts_for_disk=bool(chosen["disk"]),
            options=listed(chosen["agent_options"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    from bursar.cli.install.agent_arguments import check_arguments  # noqa: PLC0415 - brings gRPC

    check_arguments(installation)
    writers = listed(chosen["device_writers"]) or (KOORDINATORS_SCHEDULER,)
    try:
        protection = device_protection_documents(writers)
    except ValueError as error:
        raise click.UsageError(f"--device-writer: {error}") from None
    return (*agent_documents(installation), *protection)


def _extender(request: PartsRequest) -> tuple[Document, ...]:
    chosen = request.chosen
    further = listed(chosen["extender_options"])
    if further:
        from bursar.cli.install.process_options import require_known  # noqa: PLC0415 - large

        require_known("extender", further)
    return extender_documents(
        ExtenderInstallation(
            workload=workload_settings(chosen, request.parts),
            scheduler_ca_config=str(chosen["scheduler_ca_config"]),
            scheduler_names=listed(chosen["scheduler_names"]) or (SCHEDULER_USER,),
            options=further,
        )
    )


def _amount(chosen: Chosen, option: str) -> Quantity:
    text = str(chosen[option])
    try:
        return Quantity.parse(text)
    except QuantityError:
        shown = f"--{option.replace('_', '-')}"
        raise click.UsageError(f"{shown}: {text!r} is not an amount, such as 250m") from None


def _labels(texts: tuple[str, ...]) -> Mapping[str, str]:
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--node-label: KEY=VALUE is expected, not {text}")
        labels[key] = value
    return labels


_MAKERS: Final[Mapping[str, Callable[[PartsRequest], tuple[Document, ...]]]] = {
    "peerpods": _peer_pods,
    "kubevirt": _launcher_protection,
    "agent": _agent,
    "extender": _extender,
    "certificates": lambda request: cert_manager_documents(request.gating.namespace),
    "monitoring": lambda request: monitoring_documents(
        request.gating.namespace, has_operator="operator" in request.parts
    ),
    "dashboard": lambda request: dashboard_documents(request.gating.namespace),
    "removal": lambda request: removal_documents(workload_settings(request.chosen, request.parts)),
    "operator": lambda request: operator_part(request.chosen),
}
