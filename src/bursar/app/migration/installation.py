"""The manifests that install Bursar, as a move applies them: which object comes when.

Bursar has AAQ's names for its Deployments, its Service and its webhook configurations. These cannot
be applied while AAQ's are there, so they are applied at steps of their own.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.app.cluster.kinds import resource_of
from bursar.app.cluster.ports import Json, Key, Resource
from bursar.app.names import (
    CONTROLLER,
    GATING_POLICY,
    GATING_WEBHOOKS,
    POD_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
    WEBHOOK,
)
from bursar.core.model.selectors.selector import LabelSelector
from bursar.wire.aaq_installation import decode_deployment
from bursar.wire.quota.gating_configuration import decode_gating

_KEPT_KINDS: Final = frozenset({"CustomResourceDefinition", "Namespace", "ServiceAccount"})


class Group(Enum):
    """When an object is applied, and when it is removed on the way back."""

    FIRST = "first"
    """Rights, policies, and the Deployment of the controller."""
    SERVER = "server"
    """The Deployment of the webhook, and the objects that have its name."""
    WEBHOOKS = "webhooks"
    """The webhook configurations that AAQ has as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object to apply."""

    resource: Resource
    key: Key
    body: Mapping[str, Json]

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def group(self) -> Group:
        if self.kind.endswith("WebhookConfiguration"):
            is_aaqs_name = self.key.name in {GATING_WEBHOOKS, PROTECTION_WEBHOOKS}
            return Group.WEBHOOKS if is_aaqs_name else Group.FIRST
        is_server = self.key.name == WEBHOOK and self.kind in _SERVER_KINDS
        return Group.SERVER if is_server else Group.FIRST

    @property
    def is_kept(self) -> bool:
        """Whether the object stays on the way back.

        It stays if quotas depend on it, or if AAQ has an object of the same name.
        """
        return self.kind in _KEPT_KINDS

    @property
    def is_gate(self) -> bool:
        """Whether this is an object of a policy that gates new pods or protects gates."""
        return "AdmissionPolicy" in self.kind and self.key.name in {
            GATING_POLICY,
            PROTECTION_POLICY,
        }


_SERVER_KINDS: Final = frozenset({"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """All objects to apply, in the order of application."""

    manifests: tuple[Manifest, ...]

    @property
    def controller(self) -> Manifest | None:
        return self._find("Deployment", CONTROLLER)

    @property
    def home(self) -> str:
        """The namespace of the controller; empty if the manifests have no controller."""
        return "" if self.controller is None else self.controller.key.namespace

    @property
    def gates_by_policy(self) -> bool:
        return self._find("MutatingAdmissionPolicyBinding", GATING_POLICY) is not None

    @property
    def gates_by_webhook(self) -> bool:
        return self._find("MutatingWebhookConfiguration", GATING_WEBHOOKS) is not None

    @property
    def selectors(self) -> tuple[LabelSelector, ...]:
        """Which namespaces the objects that gate pods select. Raises `ValueError`."""
        kinds = {
            "MutatingAdmissionPolicyBinding": GATING_POLICY,
            "MutatingWebhookConfiguration": GATING_WEBHOOKS,
        }
        found = [self._find(kind, name) for kind, name in kinds.items()]
        bodies = [json.dumps(each.body).encode() for each in found if each is not None]
        return tuple(
            selector for body in bodies for selector in decode_gating(body, POD_WEBHOOKS).selectors
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the controller. Raises `ValueError`."""
        if self.controller is None:
            return ()
        return decode_deployment(json.dumps(self.controller.body).encode()).arguments

    def of(self, group: Group) -> tuple[Manifest, ...]:
        return tuple(each for each in self.manifests if each.group is group)

    def _find(self, kind: str, name: str) -> Manifest | None:
        found = (each for each in self.manifests if (each.kind, each.key.name) == (kind, name))
        return next(found, None)


def installation_of(documents: Iterable[Mapping[str, Json]]) -> Installation:
    """The objects of manifests. Raises `ValueError` for an object without a kind or a name.

    Deployments come last: a Deployment of the controller says that all other objects are applied.
    """
    found = [_manifest(each) for each in documents]
    found.sort(key=lambda each: _RANKS.get(each.kind, 2))
    return Installation(manifests=tuple(found))


_RANKS: Final = {"CustomResourceDefinition": 0, "Namespace": 1, "Deployment": 3}


def _manifest(document: Mapping[str, Json]) -> Manifest:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    kind, api_version = document.get("kind"), document.get("apiVersion")
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(api_version, str):
        problem = "an object without apiVersion, kind or metadata.name"
        raise ValueError(problem)  # noqa: TRY004 - the document is wrong, not the caller
    resource = resource_of(api_version, kind)
    place = str(namespace or "default") if resource.is_namespaced else ""
    return Manifest(resource=resource, key=Key(place, name), body=document)
