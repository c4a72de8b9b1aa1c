"""The rights that manifests grant to Bursar's service accounts, one by one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from bursar.app.capacity.places import PRESET_NAMESPACE
from bursar.app.devices.defaults import PodsFrom
from bursar.app.extender.manifests import ExtenderInstallation, extender_documents
from bursar.app.extender.names import EXTENDER
from bursar.app.install.access import access_documents, capacity_documents
from bursar.app.install.admission import GatingSettings
from bursar.app.install.agent import AgentInstallation, agent_documents
from bursar.app.install.documents import Document
from bursar.app.install.removal import removal_documents
from bursar.app.install.workloads import WorkloadSettings, controller_documents, webhook_documents
from bursar.app.names import AGENT, CONTROLLER, WEBHOOK
from bursar.app.operator.manifests import OperatorInstallation, operator_documents
from bursar.app.operator.names import OPERATOR

ACCOUNTS: Final = (CONTROLLER, WEBHOOK, OPERATOR, AGENT, EXTENDER)
BINDINGS: Final = ("ClusterRoleBinding", "RoleBinding")
IMAGE: Final = "bursar"
"""Rights do not depend on the image."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A verb on a resource. An empty name means every object, an empty namespace every one."""

    account: str
    verb: str
    group: str
    resource: str
    """The resource, with its subresource if there is one: `pods/resize`."""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{named}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledParts:
    """The parts of Bursar that are installed in a namespace."""

    namespace: str
    accounts: frozenset[str]
    """The service accounts that exist."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By Deployment or DaemonSet: the arguments of its containers."""
    has_cluster_quota: bool = True
    definitions: Sequence[Document] = ()
    """The CustomResourceDefinitions that an operator applies."""

    def has(self, workload: str, option: str) -> bool:
        return self.value(workload, option) is not None

    def value(self, workload: str, option: str) -> str | None:
        """The value of an option; empty for a flag, and None if it is not given."""
        for argument in self.arguments.get(workload, ()):
            name, _, value = argument.partition("=")
            if name == option:
                return value
        return None


def needed_rights(parts: InstalledParts) -> tuple[Right, ...]:
    """The rights that the processes of these parts need, by the manifests; sorted."""
    found = granted_rights(_documents(parts))
    return tuple(sorted(each for each in found if each.account in parts.accounts))


def known_bindings(namespace: str, definitions: Sequence[Document]) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of every binding that manifests for this namespace may have."""
    home = WorkloadSettings(image=IMAGE, namespace=namespace)
    settings = GatingSettings(namespace=namespace)
    every = [
        *access_documents(settings),
        *controller_documents(home),
        *webhook_documents(home),
        *capacity_documents(settings, PRESET_NAMESPACE),
        *capacity_documents(settings, namespace),
        *removal_documents(home),
        *agent_documents(AgentInstallation(image=IMAGE, namespace=namespace)),
        *extender_documents(ExtenderInstallation(workload=home)),
        *_operator(namespace, definitions),
    ]
    return {(kind, where, name) for kind, where, name in map(_identity, every) if kind in BINDINGS}


def _documents(parts: InstalledParts) -> Iterator[Document]:
    settings = GatingSettings(
        namespace=parts.namespace,
        allow_cluster_quota=parts.has_cluster_quota
        and not parts.has(CONTROLLER, "--without-cluster-quota"),
    )
    yield from access_documents(settings)
    keeps = parts.has(CONTROLLER, "--keep-certificates")
    is_like_aaq = keeps and parts.has(CONTROLLER, "--aaq-certificates")
    workload = WorkloadSettings(
        image=IMAGE,
        namespace=parts.namespace,
        keeps_certificates=keeps,
        has_aaq_certificates=is_like_aaq,
    )
    if parts.has(CONTROLLER, "--tls-secret"):
        yield from controller_documents(workload)
    if parts.has(WEBHOOK, "--tls-secret"):
        yield from webhook_documents(workload)
    if parts.has(CONTROLLER, "--keep-capacity"):
        preset = parts.value(CONTROLLER, "--peerpods-namespace") or PRESET_NAMESPACE
        yield from capacity_documents(settings, preset)
    source = parts.value(AGENT, "--pods-from")
    if source in {each.value for each in PodsFrom}:
        yield from agent_documents(
            AgentInstallation(
                image=IMAGE,
                namespace=parts.namespace,
                pods_from=PodsFrom(source),
                accounts_for_disk=parts.has(AGENT, "--disk"),
            )
        )
    if parts.has(EXTENDER, "--tls-secret"):
        yield from extender_documents(ExtenderInstallation(workload=workload))
    if OPERATOR in parts.accounts:
        yield from _operator(parts.namespace, parts.definitions)


def _operator(namespace: str, definitions: Sequence[Document]) -> tuple[Document, ...]:
    if not definitions:
        return ()
    return operator_documents(
        OperatorInstallation(image=IMAGE, namespace=namespace, definitions=definitions)
    )


def granted_rights(documents: Iterable[Document]) -> set[Right]:
    """All rights of the service accounts to which the documents bind a Role or a ClusterRole."""
    known = list(documents)
    roles = {_identity(each): each for each in known}
    return {
        right
        for each in known
        if each["kind"] in BINDINGS
        for subject in cast("list[Mapping[str, str]]", each["subjects"])
        for right in _rights(subject["name"], each, roles)
    }


def _rights(
    account: str, binding: Document, roles: Mapping[tuple[str, str, str], Document]
) -> Iterator[Right]:
    _, namespace, _ = _identity(binding)
    bound = cast("Mapping[str, str]", binding["roleRef"])
    role = roles[bound["kind"], namespace if bound["kind"] == "Role" else "", bound["name"]]
    for rule in cast("list[Mapping[str, list[str]]]", role["rules"]):
        for verb in rule["verbs"]:
            for group in rule.get("apiGroups", ()):
                for resource in rule.get("resources", ()):
                    for name in rule.get("resourceNames", ("",)):
                        yield Right(account, verb, group, resource, name, namespace)


def _identity(document: Document) -> tuple[str, str, str]:
    metadata = cast("Mapping[str, str]", document["metadata"])
    return str(document["kind"]), metadata.get("namespace", ""), metadata["name"]
