"""Decoding of the objects that gate pods: which namespaces a policy or a webhook selects."""

from collections.abc import Collection
from dataclasses import dataclass

from bursar.core.model.selectors.selector import LabelSelector
from bursar.wire.quota.objects import RawSelector, label_selector
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.struct import Struct


class _Matching(Struct):
    namespace_selector: RawSelector | None = None


class _BindingSpec(Struct):
    match_resources: _Matching | None = None


class _Webhook(Struct):
    name: str | None = None
    namespace_selector: RawSelector | None = None


class _Configuration(Struct):
    metadata: ObjectMeta | None = None
    spec: _BindingSpec | None = None
    """The spec, if this is the binding of a policy."""
    webhooks: list[_Webhook] | None = None
    """The webhooks, if this is a webhook configuration."""


@dataclass(frozen=True, slots=True)
class GatingSelectors:
    uid: str
    selectors: tuple[LabelSelector, ...]
    """The selector of each webhook, or of the binding. It may be invalid; empty selects all."""


def decode_gating(body: bytes, webhooks: Collection[str]) -> GatingSelectors:
    """Read the namespaceSelectors of a binding, or of these webhooks. Raises `ValueError`."""
    raw = decode_body(body, _Configuration)
    if raw.spec is not None:
        selectors = [(raw.spec.match_resources or _Matching()).namespace_selector]
    else:
        # The API server leaves an empty list of webhooks out.
        webhooks_in = raw.webhooks or []
        selectors = [each.namespace_selector for each in webhooks_in if each.name in webhooks]
    uid = (raw.metadata or ObjectMeta()).uid or ""
    return GatingSelectors(uid, tuple(label_selector(each or RawSelector()) for each in selectors))
