"""AdmissionReviews of pods: decoding only the branches of the pod that the rewrite looks at."""

from dataclasses import dataclass
from typing import Final, Generic, TypedDict, TypeVar, cast

import msgspec

from bursar.wire.admission import API_VERSIONS, decode_object
from bursar.wire.documents.tree import Number, Value
from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.struct import Struct


class _Metadata(TypedDict, total=False):
    annotations: dict[str, object] | None


class _Container(TypedDict, total=False):
    name: str | None
    restartPolicy: str | None
    resources: dict[str, object] | None


class _SpecAlone(TypedDict, total=False):
    runtimeClassName: str | None
    resources: dict[str, object] | None
    resourceClaims: list[object] | None


class _Spec(_SpecAlone, total=False):
    containers: list[_Container] | None
    initContainers: list[_Container] | None


class _Pod(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _Spec | None


# ------------------------------------------------------------------ with the downward API


class _Variable(TypedDict, total=False):
    valueFrom: dict[str, object] | None


class _Volume(TypedDict, total=False):
    downwardAPI: dict[str, object] | None
    projected: dict[str, object] | None


class _ContainerWithEnv(_Container, total=False):
    env: list[_Variable] | None


class _SpecWithFields(_SpecAlone, total=False):
    containers: list[_ContainerWithEnv] | None
    initContainers: list[_ContainerWithEnv] | None
    volumes: list[_Volume] | None


class _PodWithFields(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _SpecWithFields | None


# ------------------------------------------------------------------ reviews

PodT = TypeVar("PodT")


class _Request(Struct, Generic[PodT]):
    uid: str
    object: PodT


class _Review(Struct, Generic[PodT]):
    api_version: str
    request: _Request[PodT]


@dataclass(frozen=True, slots=True)
class PeerPodReview:
    api_version: str
    uid: str
    pod: dict[str, Value]


FIELD_REF: Final = b'"resourceFieldRef"'
"""Few pods have one. The environment of all others, which can be long, is not decoded."""


def decode_peer_pod(body: bytes) -> dict[str, Value]:
    """The branches of a pod that the rewrite looks at. Raises `ObjectError`.

    A patch made from them holds for the whole pod: it cannot touch what was not decoded. The
    pods of one workload differ in these branches only by their annotations.
    """
    if FIELD_REF in body:
        return cast("dict[str, Value]", decode_object(_PODS_WITH_FIELDS, body))
    return cast("dict[str, Value]", decode_object(_PODS, body))


def decode_peer_pod_review(body: bytes) -> PeerPodReview | None:
    """A review and the branches of its pod in one pass, which halves the time for a large pod.

    None if the review is not as expected; then `decode_review` tells why.
    """
    try:
        review = (_REVIEWS_WITH_FIELDS if FIELD_REF in body else _REVIEWS).decode(body)
    except UNREADABLE:
        return None
    if review.api_version not in API_VERSIONS:
        return None
    pod = cast("dict[str, Value]", review.request.object)
    return PeerPodReview(review.api_version, review.request.uid, pod)


_PODS: Final = msgspec.json.Decoder(_Pod, float_hook=Number)
_PODS_WITH_FIELDS: Final = msgspec.json.Decoder(_PodWithFields, float_hook=Number)
_REVIEWS: Final = msgspec.json.Decoder(_Review[_Pod], float_hook=Number)
_REVIEWS_WITH_FIELDS: Final = msgspec.json.Decoder(_Review[_PodWithFields], float_hook=Number)
