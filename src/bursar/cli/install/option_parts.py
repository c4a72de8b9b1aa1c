"""Which parts of `bursar manifests` an option is for, to say when it has no effect."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import click
from click.core import ParameterSource

_PROCESSES: Final = ("controller", "webhook", "extender")
_AGENT: Final = (
    *("pods_from", "socket_dir", "kubelet_dir", "kubelet_cert", "sources_config", "host_network"),
    *("disk", "device_writers", "agent_options"),
)
_PEER_PODS: Final = (
    *("node_labels", "without_runtime_class", "handler", "overhead_cpu", "overhead_memory"),
    *("all_pods", "without_webhook", "upstream_webhook"),
)

PARTS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_AGENT, ("agent",)),
    **dict.fromkeys(_PEER_PODS, ("peerpods",)),
    **dict.fromkeys(("scheduler_ca_config", "scheduler_names", "extender_options"), ("extender",)),
    **dict.fromkeys(("client_ca_config", "client_names", "webhook_options"), ("webhook",)),
    **dict.fromkeys(("controller_options", "waiting_pods_max"), ("controller",)),
    **dict.fromkeys(("with_clusterresourcequotas", "resizes"), ("policies",)),
    **dict.fromkeys(("ca_bundle", "url"), ("webhooks", "peerpods")),
    **dict.fromkeys(("replicas", "priority_class"), (*_PROCESSES, "operator")),
    "image_pull_policy": (*_PROCESSES, "removal"),
    "image": (*_PROCESSES, "agent", "removal", "operator"),
    "applied_quotas": ("controller", "operator"),
    "configuration_exists": ("webhooks",),
    "runtime_classes": ("peerpods", "controller", "webhook"),
    "vm_resource": ("peerpods", "webhook"),
    "peerpods_namespace": ("capacity",),
    "kubevirt_namespace": ("kubevirt",),
}
"""By the name of the option's value. An option that is missing here is for every part."""


def options_without_effect(context: click.Context, parts: Collection[str]) -> Iterator[str]:
    """A line for each option of the command line that is only for parts that are not printed."""
    for option in context.command.params:
        of = PARTS_OF.get(option.name or "", ())
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if of and given and not set(of) & set(parts):
            word = "the part" if len(of) == 1 else "one of the parts"
            yield f"{option.opts[0]} has no effect without {word} {', '.join(of)}"
