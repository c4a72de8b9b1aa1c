"""The webhook configurations whose `caBundle` Bursar writes, and their informers."""

from random import Random

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.observe import Watched, observe_one
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Clock, Key, Patch, Resource
from bursar.core.certificates.webhooks import WebhookClient
from bursar.wire.certificates import decode_webhooks, encode_bytes

Webhooks = tuple[WebhookClient, ...]


def observe_configuration(
    cluster: Watched, clock: Clock, random: Random, resource: Resource, name: str
) -> Informer[Sighting[Webhooks]]:
    """Watch one configuration. A ClusterRole that names it suffices."""
    return observe_one(cluster, clock, random, resource, decode_webhooks, Key("", name))


def bundle_patch(identity: Identity, indexes: tuple[int, ...], bundle: bytes) -> Patch:
    """Write the `caBundle` of some webhooks, and nothing else, if nothing changed meanwhile."""
    text = encode_bytes(bundle)
    operations = (put(f"/webhooks/{index}/clientConfig/caBundle", text) for index in indexes)
    return fenced_patch(identity, operations, is_exact=True)
