"""Manifests that run the scheduler extender, and its permissions.

They are a part of their own, because most installations need none of it: the extender can bind
every pod of the cluster.
"""

from dataclasses import dataclass

from bursar.app.extender.kinds import CLUSTER_RESOURCES, ENDPOINT_SLICES, STORAGE_CAPACITIES
from bursar.app.extender.names import EXTENDER, SCHEDULER_CA_CONFIG, SCHEDULER_USER, SIGNAL
from bursar.app.install.documents import (
    OBSERVE,
    Document,
    document,
    granted,
    metrics_review_rules,
    permission,
)
from bursar.app.install.policies.confinement import extender_confinement_documents
from bursar.app.install.workloads import (
    CLIENT_CA,
    CLIENT_CA_FOLDER,
    Workload,
    WorkloadSettings,
    certificate_access,
    common_options,
    labels_of,
    workload_documents,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderInstallation:
    """Settings of the Deployment of `bursar extender`."""

    workload: WorkloadSettings
    scheduler_ca_config: str = SCHEDULER_CA_CONFIG
    """ConfigMap whose key `ca.crt` has the CAs of the scheduler's client certificate."""
    scheduler_names: tuple[str, ...] = (SCHEDULER_USER,)
    """Names that the client certificate may have."""
    options: tuple[str, ...] = ()
    """Further options of `bursar extender`."""


def extender_documents(installation: ExtenderInstallation) -> tuple[Document, ...]:
    """The service account, its permissions and their limits, the Deployment and its Service."""
    settings = installation.workload
    home, labels = settings.namespace, labels_of("extender")
    account = document("v1", "ServiceAccount", EXTENDER, namespace=home, labels=labels)
    names = (f"--client-name={name}" for name in installation.scheduler_names)
    return (
        account,
        *granted(EXTENDER, _cluster_rules(), account=EXTENDER, home=home, labels=labels),
        *granted(
            EXTENDER, _home_rules(), account=EXTENDER, home=home, namespace=home, labels=labels
        ),
        *extender_confinement_documents(home),
        *certificate_access(settings, EXTENDER, keeps=False),
        *workload_documents(
            settings,
            Workload(
                name=EXTENDER,
                component="extender",
                arguments=(
                    "extender",
                    *common_options(settings),
                    f"--client-ca={CLIENT_CA_FOLDER}/{CLIENT_CA}",
                    *names,
                    *installation.options,
                ),
                cpu="50m",
                # 150,000 pods need about 150 MB.
                memory="128Mi",
                memory_limit="512Mi",
                client_ca_config=installation.scheduler_ca_config,
                is_selected=False,
            ),
        ),
    )


def _cluster_rules() -> list[Document]:
    pools = CLUSTER_RESOURCES
    return [
        permission(("get", *OBSERVE), "pods"),
        permission(("create",), "pods/binding"),
        permission(OBSERVE, "namespaces"),
        permission(OBSERVE, pools.plural, group=pools.group),
        permission(("patch",), f"{pools.plural}/status", group=pools.group),
        permission(("create", "patch"), "events", group="events.k8s.io"),
        *metrics_review_rules(),
    ]


def _home_rules() -> list[Document]:
    """RBAC cannot restrict creation by name."""
    slices, signals, leases = ENDPOINT_SLICES, STORAGE_CAPACITIES, "coordination.k8s.io"
    return [
        permission(("get", "patch"), "leases", group=leases, names=(EXTENDER,)),
        permission(("create",), "leases", group=leases),
        # Its uid, for the owner of the objects below.
        permission(("get",), "serviceaccounts", names=(EXTENDER,)),
        permission(("patch",), slices.plural, group=slices.group, names=(EXTENDER,)),
        permission(("create",), slices.plural, group=slices.group),
        permission(("patch",), signals.plural, group=signals.group, names=(SIGNAL,)),
        permission(("create",), signals.plural, group=signals.group),
    ]
