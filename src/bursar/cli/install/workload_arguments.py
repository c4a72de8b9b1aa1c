"""Options of `bursar manifests` about controller and webhook, and the options these start with.

The processes must be started with the same settings as the policies, webhooks and rights that are
printed with them. So their options follow from the options and parts of one command.
"""

from collections.abc import Collection, Mapping
from typing import Final

import click

import bursar
from bursar.app.capacity.places import PRESET_NAMESPACE
from bursar.app.controller.defaults import WAITING_PODS_MAX
from bursar.app.install.workloads import PRIORITY_CLASS, REPLICAS, WorkloadSettings
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.cli.options import flag, one_of, shown, together
from bursar.core.peerpods.names import RUNTIME_CLASS, VM_RESOURCE

IMAGE: Final = f"bursar:{bursar.__version__}"

Chosen = Mapping[str, str | int | bool | tuple[str, ...] | None]
"""Values of options by name, as click hands them over."""

workload_options: Final = together(
    shown(
        "--image",
        IMAGE,
        "Controller, webhook, agent, extender, operator, removal: image to run.",
    ),
    shown(
        "--replicas",
        REPLICAS,
        "Controller, webhook, extender: number of replicas.",
        type=click.IntRange(min=1),
    ),
    shown(
        "--waiting-pods-max",
        WAITING_PODS_MAX,
        "Controller: pods of one namespace that may wait; 0: any number.",
        type=click.IntRange(min=0),
    ),
    one_of(
        "--applied-quotas",
        AppliedUsage.OWN,
        "Controller, operator: whose usage the copies of cluster quotas show; all: of every "
        "namespace.",
    ),
    click.option(
        "--image-pull-policy",
        default="",
        type=click.Choice(["", "Always", "IfNotPresent", "Never"]),
        metavar="POLICY",
        help="Controller, webhook, extender: when nodes pull the image: Always, IfNotPresent "
        "or Never. Default: as Kubernetes decides by the tag.",
    ),
    shown(
        "--priority-class",
        PRIORITY_CLASS,
        "Controller, webhook, extender: PriorityClass of the pods.",
    ),
    flag("--aaq-certificates", "Controller, webhook: keep the certificates in AAQ's Secrets."),
    flag("--cert-manager", "Controller, webhook: cert-manager makes the certificates."),
    click.option(
        *("--controller-option", "controller_options"),
        multiple=True,
        help="Controller: a further option of bursar controller, --NAME=VALUE. Repeatable.",
    ),
    click.option(
        "--client-ca-config",
        default="",
        metavar="NAME",
        help="Webhook: ConfigMap with ca.crt, the CA of the API server's client certificate; "
        "other callers are refused.",
    ),
    click.option(
        *("--client-name", "client_names"),
        multiple=True,
        help="Webhook: name that the client certificate must have. Repeatable. Default: any.",
    ),
    click.option(
        *("--webhook-option", "webhook_options"),
        multiple=True,
        help="Webhook: a further option of bursar webhook, --NAME=VALUE. Repeatable.",
    ),
)


def workload_settings(chosen: Chosen, parts: Collection[str]) -> WorkloadSettings:
    """Raises `click.UsageError`."""
    for process in ("controller", "webhook"):
        further = listed(chosen[f"{process}_options"])
        if further and process in parts:
            from bursar.cli.install.process_options import require_known  # noqa: PLC0415 - large

            require_known(process, further)
    try:
        return WorkloadSettings(
            image=str(chosen["image"]),
            namespace=str(chosen["namespace"]),
            replicas=int(str(chosen["replicas"])),
            keeps_certificates=not chosen["cert_manager"],
            has_aaq_certificates=bool(chosen["aaq_certificates"]),
            controller_options=(*_controller(chosen, parts), *listed(chosen["controller_options"])),
            webhook_options=(*_webhook(chosen), *listed(chosen["webhook_options"])),
            client_ca_config=str(chosen["client_ca_config"]),
            client_names=listed(chosen["client_names"]),
            pull_policy=str(chosen["image_pull_policy"]),
            priority_class=str(chosen["priority_class"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def applied_option(chosen: Chosen) -> tuple[str, ...]:
    """The option of controller and operator for the copies of cluster quotas, if it is needed."""
    usage = chosen["applied_quotas"]
    return () if usage == AppliedUsage.OWN.value else (f"--applied-quotas={usage}",)


def _controller(chosen: Chosen, parts: Collection[str]) -> list[str]:
    found = []
    if isinstance(chosen["selector"], str):
        found.append(f"--namespace-selector={chosen['selector']}")
    if chosen["without_cluster_quota"]:
        found.append("--without-cluster-quota")
    if chosen["waiting_pods_max"] != WAITING_PODS_MAX:
        found.append(f"--waiting-pods-max={chosen['waiting_pods_max']}")
    found += applied_option(chosen)
    if "capacity" in parts:
        found.append("--keep-capacity")
        if chosen["peerpods_namespace"] != PRESET_NAMESPACE:
            found.append(f"--peerpods-namespace={chosen['peerpods_namespace']}")
    return [*found, *(f"--peerpod-runtime-class={name}" for name in _classes(chosen))]


def _webhook(chosen: Chosen) -> list[str]:
    found = [f"--runtime-class={name}" for name in _classes(chosen)]
    if chosen["vm_resource"] != VM_RESOURCE:
        found.append(f"--vm-resource={chosen['vm_resource']}")
    return found


def _classes(chosen: Chosen) -> tuple[str, ...]:
    """The runtime classes, unless they are what the processes take by default."""
    classes = listed(chosen["runtime_classes"])
    return () if classes == (RUNTIME_CLASS,) else classes


def listed(values: str | int | bool | tuple[str, ...] | None) -> tuple[str, ...]:  # noqa: FBT001 - as click has it
    """The values of a repeatable option, each once."""
    return tuple(dict.fromkeys(values)) if isinstance(values, tuple) else ()
