"""AAQ's Secrets and ConfigMap of certificates, for programs and people that know them.

AAQ's annotations say when a certificate begins and ends, and how long its kind lives. As in AAQ, a
time in the past in the annotation of the end asks for a new certificate.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import CONFIG_MAPS, SECRETS
from bursar.app.cluster.observe import Watched, observe_one
from bursar.app.cluster.ports import Clock, Key
from bursar.wire.certificates import AnnotatedSecret, decode_annotated_secret, decode_texts_of
from bursar.wire.structs.fields import timestamp

BUNDLE_KEY: Final = "ca-bundle.crt"
NOT_BEFORE: Final = "auth.openshift.io/certificate-not-before"
NOT_AFTER: Final = "auth.openshift.io/certificate-not-after"
LIVES: Final = "operator.aaq.kubevirt.io/certConfig"

Annotations = Mapping[str, str]


def observe_annotated(
    cluster: Watched, clock: Clock, random: Random, key: Key
) -> Informer[Sighting[AnnotatedSecret]]:
    """Watch one Secret with its annotations."""
    return observe_one(cluster, clock, random, SECRETS, decode_annotated_secret, key)


def observe_bundle(
    cluster: Watched, clock: Clock, random: Random, key: Key
) -> Informer[Sighting[Mapping[str, str]]]:
    """Watch the data of one ConfigMap."""
    return observe_one(cluster, clock, random, CONFIG_MAPS, decode_texts_of, key)


def annotations_for(not_after: datetime, life: timedelta, margin: timedelta) -> Annotations:
    """AAQ's annotations of a certificate that expires at `not_after`."""
    lives = f'{{"lifetime":"{go_duration(life)}","refresh":"{go_duration(life - margin)}"}}'
    return {
        NOT_BEFORE: timestamp(not_after - life),
        NOT_AFTER: timestamp(not_after),
        LIVES: lives,
    }


def is_renewal_requested(annotations: Annotations, now: datetime) -> bool:
    """Whether the annotation of the end lies in the past."""
    try:
        end = datetime.fromisoformat(annotations.get(NOT_AFTER, ""))
    except ValueError:
        return False
    return end.tzinfo is not None and end <= now


def go_duration(time: timedelta) -> str:
    """A duration as Go writes it.

    >>> go_duration(timedelta(hours=48)), go_duration(timedelta(minutes=20))
    ('48h0m0s', '20m0s')
    """
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
