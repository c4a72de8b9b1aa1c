"""The keeper of certificates: a part of the leader that makes, renews and publishes them.

It compares three things with what they should be: the Secret of the CA, the Secret of the serving
pair, and the `caBundle` of webhook configurations. Each change of one of them, and each time at
which a certificate is due, leads to a reconcile. All writes are fenced by uid and
resourceVersion, so that two leaders cannot overwrite each other's certificates.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bursar.app.certificates.aaq import (
    BUNDLE_KEY,
    Annotations,
    annotations_for,
    is_renewal_requested,
    observe_annotated,
    observe_bundle,
)
from bursar.app.certificates.aaq_names import BUNDLE
from bursar.app.certificates.configurations import Webhooks, bundle_patch, observe_configuration
from bursar.app.certificates.names import CA_SECRET, CERTIFICATE, CONFIGURATIONS, KEY, TLS_SECRET
from bursar.app.certificates.ports import X509, KeyPair
from bursar.app.certificates.secrets import (
    AUTHORITIES,
    LABELS,
    RETIRED,
    SecretData,
    authority_data,
    new_secret,
    pair_data,
    serving_pair_in,
    signer_in,
)
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.kinds import CONFIG_MAPS, SECRETS
from bursar.app.cluster.observe import RunningInformer, Watched, follow
from bursar.app.cluster.ownership import owner_references
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json, Key, Resource
from bursar.app.cluster.reconcile import PendingWrites, ReconcileContext, Reconciler
from bursar.app.cluster.time_limit import wait_at_most
from bursar.app.extender.names import EXTENDER
from bursar.app.log import Log
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.core.certificates.decision import (
    Reason,
    decide_authority,
    decide_pair,
    end_of_pair,
)
from bursar.core.certificates.facts import (
    BACKDATE,
    Authority,
    CertificateSettings,
    ServingPair,
)
from bursar.core.certificates.webhooks import Server, outdated
from bursar.wire.certificates import AnnotatedSecret, encode_data

LOG: Final = Log("certificates")
WRITE_SECONDS: Final = 0.5
"""Shortest time between two writes of one object."""
WAIT_SECONDS_MAX: Final = 3600.0
"""Longest time between two decisions. A machine that was suspended for days must notice."""

Target = tuple[Resource, str]
"""A Secret or a webhook configuration, by resource and name."""

NO_ANNOTATIONS: Final[Annotations] = {}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSettings:
    namespace: str
    """The namespace in which Bursar is installed."""
    certificates: CertificateSettings
    tls_secret: str = TLS_SECRET
    """Name of the Secret of the serving pair."""
    ca_secret: str = CA_SECRET
    """Name of the Secret of the CA."""
    is_like_aaq: bool = False
    """Write AAQ's annotations on both Secrets, and AAQ's ConfigMap with the CAs."""

    @property
    def server(self) -> Server:
        return Server(service=(self.namespace, WEBHOOK), names=self.certificates.names)


def serving_names(namespace: str) -> tuple[str, ...]:
    """Names under which API servers reach the webhook, and the webhook reaches the leader."""
    return (
        f"{WEBHOOK}.{namespace}.svc",
        f"{WEBHOOK}.{namespace}.svc.cluster.local",
        f"{WEBHOOK}.{namespace}",
        f"{CONTROLLER}.{namespace}.svc",
        f"{EXTENDER}.{namespace}.svc",
    )


@dataclass(slots=True)
class KeeperCounters:
    """Totals since the keeper was made."""

    authorities: Counter[Reason] = field(default_factory=Counter)
    """CAs that were made, by the reason."""
    pairs: Counter[Reason] = field(default_factory=Counter)
    """Serving pairs that were made, by the reason."""
    bundles: int = 0
    """Webhook configurations whose caBundle was written."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The certificates of both Secrets, as they are stored."""

    authority: Authority
    signer: KeyPair | None
    """The CA with its key; None if there is no CA that can sign."""
    pair: ServingPair | None


@dataclass(eq=False, kw_only=True)
class CertificateKeeper:
    """Call `run` once."""

    cluster: Watched
    context: ReconcileContext
    """Its `may_write` need not know whether the informers are synced."""
    settings: KeeperSettings
    x509: X509
    counters: KeeperCounters = field(default_factory=KeeperCounters, init=False)

    def __post_init__(self) -> None:
        cluster, clock, random = self.cluster, self.context.clock, self.context.random
        settings = self.settings
        self._ca: Target = (SECRETS, settings.ca_secret)
        self._tls: Target = (SECRETS, settings.tls_secret)
        self._secrets = {
            target: observe_annotated(cluster, clock, random, Key(settings.namespace, target[1]))
            for target in (self._ca, self._tls)
        }
        self._bundles = {
            (CONFIG_MAPS, name): observe_bundle(
                cluster, clock, random, Key(settings.namespace, name)
            )
            for name in ((BUNDLE,) if settings.is_like_aaq else ())
        }
        self._configurations = {
            target: observe_configuration(cluster, clock, random, *target)
            for target in CONFIGURATIONS
        }
        self._pending = PendingWrites[bool]()
        self._is_rescheduled = asyncio.Event()
        self._due: dict[Target, datetime] = {}
        """By Secret: when to decide again, if nothing changes before."""
        self._published: tuple[str, float] | None = None
        """The CA that all clients could learn of, and since which monotonic time."""
        self.reconciler = Reconciler("certificates", self._reconcile, self.context, WRITE_SECONDS)

    def informers(self) -> tuple[RunningInformer, ...]:
        return (
            *self._secrets.values(),
            *self._configurations.values(),
            *self._bundles.values(),
        )

    @property
    def not_after(self) -> dict[str, datetime]:
        """When the CA and the serving certificate expire, by `ca` and `serving`."""
        known = self._read()
        found = {"ca": known.authority.signer, "serving": known.pair}
        return {name: each.not_after for name, each in found.items() if each is not None}

    async def run(self) -> None:
        """Run the informers and reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers():
                tasks.create_task(informer.run())
            for secret in self._secrets.values():
                tasks.create_task(self._follow(secret))
            for configuration in self._configurations.values():
                tasks.create_task(self._follow(configuration))
            for bundle in self._bundles.values():
                tasks.create_task(self._follow(bundle))
            for secret in self._secrets.values():
                await secret.wait_synced()
            tasks.create_task(self.reconciler.run())
            await self._decide_in_time()

    async def _follow(self, informer: Informer[Sighting[T]]) -> None:
        def lose(seen: Sighting[T]) -> None:
            self._pending.forget(seen.identity.key)
            self._wake()

        await follow(informer, lambda _: self._wake(), lose, self._wake)

    def _wake(self) -> None:
        """Compare everything again: each object may depend on any other."""
        self.reconciler.enqueue((self._ca, self._tls, *self._configurations, *self._bundles))

    async def _decide_in_time(self) -> None:
        """Reconcile everything when a certificate is due."""
        clock = self.context.clock
        while True:
            left = self._seconds_left()
            if left > 0:
                self._is_rescheduled.clear()
                await wait_at_most(clock, left, self._is_rescheduled)
            else:
                self._wake()
                await clock.sleep(WRITE_SECONDS)

    def _schedule(self, target: Target, due: datetime) -> None:
        """Decide again at this time."""
        if self._due.get(target) != due:
            self._due[target] = due
            self._is_rescheduled.set()

    def _seconds_left(self) -> float:
        now = self.context.clock.now()
        left = ((due - now).total_seconds() for due in self._due.values())
        return min([*left, WAIT_SECONDS_MAX])

    # ------------------------------------------------------------------ what is stored

    def _read(self) -> _Known:
        """Read both Secrets.

        If there is no CA that can sign, the CA of the present pair stays trusted: the pair is
        served until clients know the next CA.
        """
        x509 = self.x509
        ca, tls = self._data(self._ca), self._data(self._tls)
        pair = signer_in(ca)
        certificate = x509.signer(pair)
        known = (
            *x509.authorities(ca.get(AUTHORITIES, b"")),
            *x509.authorities(ca.get(RETIRED, b"")),
        )
        if certificate is None:
            served = x509.authorities(tls.get(AUTHORITIES, b""))
            issued = x509.serving_pair(serving_pair_in(tls), served)
            known += tuple(each for each in served if issued and each.pem == issued.issuer)
            return _Known(Authority(signer=None, retired=known), None, issued)
        retired = tuple(each for each in known if each.pem != certificate.pem)
        authority = Authority(signer=certificate, retired=retired)
        every = (certificate, *retired)
        return _Known(authority, pair, x509.serving_pair(serving_pair_in(tls), every))

    def _data(self, target: Target) -> SecretData:
        seen = self._find(target)
        return {} if seen is None else seen.item.data

    def _find(self, target: Target) -> Sighting[AnnotatedSecret] | None:
        return self._secrets[target].find(Key(self.settings.namespace, target[1]))

    def _published_for(self, signer: str, bundle: bytes) -> timedelta | None:
        """How long clients could have learned of the CA that signs."""
        served = self.x509.authorities(self._data(self._tls).get(AUTHORITIES, b""))
        is_published = signer in {each.pem for each in served} and all(
            self._is_bundled(target, bundle) for target in self._configurations
        )
        clock_s = self.context.clock.monotonic()
        if not is_published:
            self._published = None
        elif self._published is None or self._published[0] != signer:
            self._published = (signer, clock_s)
        return None if self._published is None else timedelta(seconds=clock_s - self._published[1])

    def _is_bundled(self, target: Target, bundle: bytes) -> bool:
        informer = self._configurations[target]
        seen = informer.find(Key("", target[1]))
        if seen is None:
            return informer.is_synced
        return not outdated(seen.item, self.settings.server, bundle)

    # ------------------------------------------------------------------ reconciling

    async def _reconcile(self, target: Target) -> bool:
        if target in self._configurations:
            return await self._reconcile_bundle(target)
        if target in self._bundles:
            return await self._reconcile_config_map(target)
        seen = self._find(target)
        if seen is not None and self._pending.find(seen.identity):
            # The watch is about to show what was written, and queues the target again.
            return False
        if target == self._ca:
            return await self._reconcile_authority(seen)
        return await self._reconcile_pair(seen)

    def _is_requested(self, seen: Sighting[AnnotatedSecret] | None) -> bool:
        if seen is None or not self.settings.is_like_aaq:
            return False
        return is_renewal_requested(seen.item.annotations, self.context.clock.now())

    def _annotations(self, target: Target, not_after: datetime) -> Annotations:
        """AAQ's annotations of a certificate that expires at `not_after`, if they are wanted."""
        settings = self.settings.certificates
        if not self.settings.is_like_aaq:
            return {}
        if target == self._ca:
            return annotations_for(not_after, settings.ca_lifetime, settings.ca_margin)
        return annotations_for(not_after, settings.lifetime, settings.margin)

    async def _annotate(
        self, target: Target, seen: Sighting[AnnotatedSecret] | None, not_after: datetime
    ) -> bool:
        """Write the annotations of a certificate that is not renewed now."""
        wanted = self._annotations(target, not_after)
        if seen is None or all(
            seen.item.annotations.get(name) == text for name, text in wanted.items()
        ):
            return False
        await self._store(target, seen, seen.item.data, "", wanted)
        return True

    async def _reconcile_authority(self, seen: Sighting[AnnotatedSecret] | None) -> bool:
        known, settings = self._read(), self.settings.certificates
        now = self.context.clock.now()
        is_requested = self._is_requested(seen)
        plan = decide_authority(known.authority, now, settings, is_requested=is_requested)
        self._schedule(self._ca, plan.due)
        if plan.reason is None:
            signer = known.authority.signer
            assert signer is not None
            return await self._annotate(self._ca, seen, signer.not_after)
        end = now + settings.ca_lifetime
        made = self.x509.make_authority(now - BACKDATE, end)
        retired = "".join(each.pem for each in plan.retired).encode()
        data = authority_data(made, retired)
        if self.settings.is_like_aaq:
            # Under the names that AAQ has in this Secret.
            data = {**data, CERTIFICATE: made.certificate, KEY: made.key}
        await self._store(self._ca, seen, data, "Opaque", self._annotations(self._ca, end))
        self.counters.authorities[plan.reason] += 1
        LOG.info("a new CA was made", reason=plan.reason.value, expires=end)
        return True

    async def _reconcile_pair(self, seen: Sighting[AnnotatedSecret] | None) -> bool:
        known, settings = self._read(), self.settings.certificates
        signer = known.authority.signer
        if signer is None or known.signer is None:
            # The CA comes first. Its Secret queues this one again.
            return False
        now = self.context.clock.now()
        bundle = known.authority.bundle(now).encode()
        published_for = self._published_for(signer.pem, bundle)
        plan = decide_pair(
            known.pair,
            known.authority,
            published_for,
            now,
            settings,
            is_requested=self._is_requested(seen),
        )
        self._schedule(self._tls, plan.due)
        stored = {} if seen is None else seen.item.data
        if plan.reason is None:
            data = pair_data(serving_pair_in(stored), bundle)
            if data == stored:
                assert known.pair is not None
                is_requested = self._is_requested(seen)
                # The request stays until the new pair may be served.
                return not is_requested and await self._annotate(
                    self._tls, seen, known.pair.not_after
                )
            await self._store(self._tls, seen, data, "kubernetes.io/tls")
            LOG.info("the CAs of the serving Secret were written", secret=self._tls[1])
            return True
        end = end_of_pair(signer, now, settings)
        made = self.x509.make_pair(known.signer, settings.names, now - BACKDATE, end)
        annotations = self._annotations(self._tls, end)
        await self._store(
            self._tls, seen, pair_data(made, bundle), "kubernetes.io/tls", annotations
        )
        self.counters.pairs[plan.reason] += 1
        LOG.info("a serving certificate was made", reason=plan.reason.value, expires=end)
        return True

    async def _reconcile_bundle(self, target: Target) -> bool:
        resource, name = target
        seen: Sighting[Webhooks] | None = self._configurations[target].find(Key("", name))
        authority = self._read().authority
        if seen is None or authority.signer is None or self._pending.find(seen.identity):
            return False
        bundle = authority.bundle(self.context.clock.now()).encode()
        wrong = outdated(seen.item, self.settings.server, bundle)
        if not wrong:
            return False
        patch = bundle_patch(seen.identity, wrong, bundle)
        await self.context.writer.patch(resource, seen.identity.key, patch)
        self._pending.add(seen.identity, True)
        self.counters.bundles += 1
        LOG.info("the caBundle of webhooks was written", configuration=name, webhooks=len(wrong))
        return True

    async def _reconcile_config_map(self, target: Target) -> bool:
        """Keep AAQ's ConfigMap with the CAs to trust."""
        resource, name = target
        key = Key(self.settings.namespace, name)
        seen = self._bundles[target].find(key)
        authority = self._read().authority
        if authority.signer is None or (seen is not None and self._pending.find(seen.identity)):
            return False
        wanted = {BUNDLE_KEY: authority.bundle(self.context.clock.now())}
        if seen is None:
            owners = await owner_references(self.cluster, key.namespace)
            metadata: dict[str, Json] = {"name": name, "labels": dict(LABELS)}
            if owners:
                metadata["ownerReferences"] = list(owners)
            body: Json = {"metadata": metadata, "data": wanted}
            await self.context.writer.create(resource, body, namespace=key.namespace)
            return True
        if seen.item == wanted:
            return False
        patch = fenced_patch(seen.identity, [put("/data", wanted)], is_exact=True)
        await self.context.writer.patch(resource, key, patch)
        self._pending.add(seen.identity, True)
        return True

    async def _store(
        self,
        target: Target,
        seen: Sighting[AnnotatedSecret] | None,
        data: SecretData,
        sort: str,
        annotations: Annotations = NO_ANNOTATIONS,
    ) -> None:
        """Create the Secret, or replace its data unless it changed since it was seen."""
        resource, name = target
        namespace = self.settings.namespace
        writer = self.context.writer
        if seen is None:
            owners = await owner_references(self.cluster, namespace)
            body = new_secret(name, sort, data, owners, annotations)
            await writer.create(resource, body, namespace=namespace)
            return
        identity: Identity = seen.identity
        operations = [put("/data", dict(encode_data(data)))]
        if annotations:
            known = {**seen.item.annotations, **annotations}
            operations.append(put("/metadata/annotations", known))
        patch = fenced_patch(identity, operations, is_exact=True)
        await writer.patch(resource, identity.key, patch)
        self._pending.add(identity, True)


OpenKeeper = Callable[[Callable[[], bool]], CertificateKeeper]
"""Makes the keeper of one term. The argument says whether this process leads."""
