"""The KubeSchedulerConfiguration that makes a kube-scheduler call the extender."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.ports import Json
from bursar.app.extender.names import EXTENDER, URL_PATH
from bursar.core.model.pod import DEFAULT_SCHEDULER

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
TIMEOUT_SECONDS: Final = 10
"""Longer than a binding can take, so that the scheduler learns how it ended."""


def service_url(namespace: str) -> str:
    return f"https://{EXTENDER}.{namespace}.svc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """How the scheduler reaches the extender, and for which resources."""

    url: str
    """`https://host:port` of the extender, without a path."""
    resources: tuple[str, ...]
    ca_file: str
    """CA certificates of the extender, as a path on the scheduler's machine."""
    cert_file: str
    """The scheduler's client certificate."""
    key_file: str
    server_name: str = ""
    """Name in the extender's certificate, if it differs from the host of the URL."""
    kubeconfig: str = ""
    """The scheduler's own kubeconfig. Empty: the part is left out."""
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)


def scheduler_configuration(config: SchedulerConfig) -> dict[str, Json]:
    """The document. A scheduler reads it once, when it starts."""
    tls: dict[str, Json] = {
        "caFile": config.ca_file,
        "certFile": config.cert_file,
        "keyFile": config.key_file,
    }
    if config.server_name:
        tls["serverName"] = config.server_name
    document: dict[str, Json] = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    if config.kubeconfig:
        document["clientConnection"] = {"kubeconfig": config.kubeconfig}
    return {
        **document,
        "profiles": [{"schedulerName": name} for name in config.scheduler_names],
        "extenders": [
            {
                "urlPrefix": f"{config.url.rstrip('/')}{URL_PATH}",
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "enableHTTPS": True,
                "tlsConfig": tls,
                "httpTimeout": f"{TIMEOUT_SECONDS}s",
                "nodeCacheCapable": True,
                # A pod that requests a pool may not run without it.
                "ignorable": False,
                "managedResources": _managed(config.resources),
            }
        ],
    }


def _managed(names: Iterable[str]) -> list[Json]:
    return [{"name": name, "ignoredByScheduler": True} for name in sorted(set(names))]
