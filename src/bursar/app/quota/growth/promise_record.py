"""The record of resize promises, in a ConfigMap, so that the next leader knows of them.

A leader writes a promise to the record before it answers the webhook. A new leader takes the
record over before it decides anything. Each write names the resourceVersion that it replaces and
the term that wrote it: once a new leader has taken the record over, no write of an earlier leader
succeeds, and an answer that the earlier leader gave before is in what the new leader read. No clock
is involved.

Ended promises stay in the record until the next write. They do no harm: the pod has a newer
resourceVersion, or is gone.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.kinds import CONFIG_MAPS
from bursar.app.cluster.ownership import owner_references
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    ConflictError,
    ForbiddenError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    ReadWriter,
    UnavailableError,
)
from bursar.app.cluster.time_limit import within
from bursar.app.log import Log
from bursar.app.names import PROMISES
from bursar.core.quota.growth.promises import RecordedPromise
from bursar.wire.quota.resize_promises import decode_promises, encode_promises

LOG: Final = Log("quota")
TERM: Final = "term"
LIST: Final = "promises"
"""The two keys of the ConfigMap: which term wrote it, and the list of promises."""
RETRY_SECONDS: Final = 1.0
SAVE_SECONDS: Final = 2.0
"""Timeout of one write; the webhook waits 3 s for the answer."""
RECORD_BYTES_MAX: Final = 900_000
"""A ConfigMap holds at most 1 MiB."""
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class _Stored:
    resource_version: str
    term: str
    text: str


class PromiseRecord:
    """The record as one term uses it. `term` is unique to the term."""

    def __init__(
        self,
        cluster: ReadWriter,
        clock: Clock,
        *,
        namespace: str,
        term: str,
        is_leader: Callable[[], bool],
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._key = Key(namespace, PROMISES)
        self._term, self._is_leader = term, is_leader
        self._lock = asyncio.Lock()
        self._stored: _Stored | None = None
        self._asked = self._saved = 0

    async def take_over(self) -> tuple[RecordedPromise, ...] | None:
        """Read the promises of earlier leaders, and let no earlier leader make another.

        None if the record cannot be decoded or the controller has no right to it. Retries until
        the API server answers.
        """
        while True:
            try:
                stored = await within(self._clock, SAVE_SECONDS, self._take_over())
                break
            except (ConflictError, AlreadyExistsError):
                continue  # The previous leader has written; read again.
            except ForbiddenError as error:
                LOG.warning(
                    "the controller may not access the record of resize promises", error=error
                )
                return None
            except (ClusterError, TimeoutError) as error:
                LOG.warning(
                    "cannot take over the record of resize promises; trying again",
                    record=self._key,
                    error=error if str(error) else "no answer in time",
                )
                await self._clock.sleep(RETRY_SECONDS)
        try:
            return decode_promises(stored.text)
        except ValueError:
            return None

    async def _take_over(self) -> _Stored:
        stored = await self._read()
        if stored is None:
            self._stored = await self._create(encode_promises(()))
        else:
            self._stored = await self._patch(stored.resource_version, stored.text)
        return self._stored

    async def save(self, collect: Callable[[], Iterable[RecordedPromise]]) -> None:
        """Return when a list that was collected after this call is stored.

        Calls that wait for a write share the next one. Raises `ClusterError`, `TimeoutError`.
        """
        self._asked += 1
        asked = self._asked
        async with self._lock:
            if self._saved >= asked:
                return
            asked = self._asked
            text = encode_promises(collect())
            if len(text) > RECORD_BYTES_MAX:
                raise UnavailableError("too many resizes are being admitted")
            if self._stored is None or self._stored.text != text:
                await within(self._clock, SAVE_SECONDS, self._write(text))
            self._saved = asked

    async def _write(self, text: str) -> None:
        for _ in range(TRIES):
            stored = self._stored
            try:
                if stored is None:
                    stored = await self._read()
                    if stored is not None and stored.term != self._term:
                        raise UnavailableError("another replica has taken over the promises")
                # Until the answer is here, it is unknown what is stored.
                self._stored = None
                if stored is not None:
                    self._stored = await self._patch(stored.resource_version, text)
                    return
                if not self._is_leader():
                    raise UnavailableError("this replica does not lead any more")
                self._stored = await self._create(text)
            except (ConflictError, NotFoundError, AlreadyExistsError):
                continue
            else:
                return
        raise UnavailableError("the record of resize promises keeps changing")

    # -------------------------------------------------------------- the ConfigMap

    async def _read(self) -> _Stored | None:
        try:
            return _decode(await self._cluster.get(CONFIG_MAPS, self._key))
        except NotFoundError:
            return None

    async def _create(self, text: str) -> _Stored:
        owners = await owner_references(self._cluster, self._key.namespace)
        metadata: dict[str, Json] = {"name": self._key.name}
        if owners:
            metadata["ownerReferences"] = list(owners)
        body: Json = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": metadata,
            "data": self._data(text),
        }
        namespace = self._key.namespace
        return _decode(await self._cluster.create(CONFIG_MAPS, body, namespace=namespace))

    async def _patch(self, resource_version: str, text: str) -> _Stored:
        body: Json = {
            "metadata": {"resourceVersion": resource_version},
            "data": self._data(text),
        }
        patch = Patch(kind=PatchKind.MERGE, body=body)
        return _decode(await self._cluster.patch(CONFIG_MAPS, self._key, patch))

    def _data(self, text: str) -> Json:
        return {TERM: self._term, LIST: text}


def _decode(body: bytes) -> _Stored:
    document = json.loads(body)
    data = document.get("data") or {}
    return _Stored(document["metadata"]["resourceVersion"], data.get(TERM, ""), data.get(LIST, ""))
