"""The record of resize promises: the text in a ConfigMap that the next leader reads.

    [{"namespace": "a", "name": "web", "uid": "...", "resourceVersion": "7",
      "nanos": {"requests.cpu": "4000000000"}}]

Amounts are texts, because they may exceed the integers of JSON libraries.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from bursar.core.quota.growth.promises import RecordedPromise
from bursar.core.quota.ledger import PodKey

_DIGITS_MAX: Final = 64


class _Promise(msgspec.Struct, rename="camel", omit_defaults=True):
    namespace: str
    name: str
    uid: str
    nanos: dict[str, str]
    resource_version: str = ""
    """Empty if it is not a number."""


_PROMISES: Final = msgspec.json.Decoder(list[_Promise])


def encode_promises(promises: Iterable[RecordedPromise]) -> str:
    """The text of promises; equal promises in any order have the same text."""
    listed = sorted(
        (
            _Promise(
                namespace=pod.namespace,
                name=pod.name,
                uid=uid,
                resource_version="" if version is None else str(version),
                nanos={name: str(amounts[name]) for name in sorted(amounts)},
            )
            for pod, uid, version, amounts in promises
        ),
        key=msgspec.json.encode,
    )
    return msgspec.json.encode(listed).decode()


def decode_promises(text: str) -> tuple[RecordedPromise, ...]:
    """The promises of a text. Raises `ValueError`."""
    return tuple(
        RecordedPromise(
            PodKey(each.namespace, each.name),
            each.uid,
            _number(each.resource_version) if each.resource_version else None,
            {name: _number(nanos) for name, nanos in each.nanos.items()},
        )
        for each in _PROMISES.decode(text)
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        raise ValueError("a whole number is expected")
    return int(text)
