"""The Secrets that hold certificates: their names, their keys, and their informers."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from bursar.app.certificates.names import CERTIFICATE, KEY
from bursar.app.certificates.ports import KeyPair
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import SECRETS
from bursar.app.cluster.observe import Watched, observe_one
from bursar.app.cluster.ports import Clock, Json, Key
from bursar.wire.certificates import decode_secret, encode_data

AUTHORITIES: Final = "ca.crt"
"""In the Secret of the pair: all CAs to trust. In the Secret of the CA: the CA that signs."""
CA_KEY: Final = "ca.key"
RETIRED: Final = "retired.crt"
"""CAs that sign no more and are still trusted."""

LABELS: Final = {"app.kubernetes.io/managed-by": "bursar"}

SecretData = Mapping[str, bytes]


def observe_secret(
    cluster: Watched, clock: Clock, random: Random, key: Key
) -> Informer[Sighting[SecretData]]:
    """Watch one Secret. A Role that names it suffices, because the query names it too."""
    return observe_one(cluster, clock, random, SECRETS, decode_secret, key)


def serving_pair_in(data: SecretData) -> KeyPair:
    return KeyPair(certificate=data.get(CERTIFICATE, b""), key=data.get(KEY, b""))


def signer_in(data: SecretData) -> KeyPair:
    return KeyPair(certificate=data.get(AUTHORITIES, b""), key=data.get(CA_KEY, b""))


def pair_data(pair: KeyPair, bundle: bytes) -> SecretData:
    return {CERTIFICATE: pair.certificate, KEY: pair.key, AUTHORITIES: bundle}


def authority_data(signer: KeyPair, retired: bytes) -> SecretData:
    return {AUTHORITIES: signer.certificate, CA_KEY: signer.key, RETIRED: retired}


def new_secret(
    name: str,
    sort: str,
    data: SecretData,
    owners: Sequence[Json] = (),
    annotations: Mapping[str, str] | None = None,
) -> Json:
    metadata: dict[str, Json] = {"name": name, "labels": dict(LABELS)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owners:
        metadata["ownerReferences"] = list(owners)
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": metadata,
        "type": sort,
        "data": dict(encode_data(data)),
    }
