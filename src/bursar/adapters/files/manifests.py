"""Reading the manifests of `-f`: pods, nodes, workloads, quotas and namespaces.

Every problem with a source raises `ManifestError`. Its message is one short line with the place,
the object, the field and the reason. It is safe to print: of the manifest it quotes only a
quantity, a time, a kind or a name.
"""

import gc
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, TypeVar

from bursar.adapters.files import sources
from bursar.adapters.files.sources import SourceError
from bursar.app.bad_input import BadInputError
from bursar.app.cluster.ports import Json, Resource
from bursar.core.model.admission.classes import PriorityClass, RuntimeClass
from bursar.core.model.admission.limit_range import LimitRange
from bursar.core.model.namespace import DEFAULT_NAMESPACE, NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.quota.quota import QuotaObject
from bursar.wire.documents.stream import Document, read_documents
from bursar.wire.documents.text import SOURCE_BYTES_MAX, DocumentError
from bursar.wire.documents.tree import Number, Value
from bursar.wire.model.objects import Decoded, Entry, ObjectError, Skipped, read_objects
from bursar.wire.model.workloads.autoscaler import Autoscaler
from bursar.wire.model.workloads.workload import WorkloadTemplate
from bursar.wire.structs.fields import FIELD_LENGTH_MAX, printable, quoted
from bursar.wire.structs.quantity_hint import likely_quantity

__all__ = [
    "ManifestError",
    "Manifests",
    "NamespaceObject",
    "Origin",
    "QuotaObject",
    "WorkloadTemplate",
    "manifests_of",
    "plain",
    "read_exact_objects",
    "read_manifests",
    "read_objects_as_written",
]

T = TypeVar("T")
_NAME_LENGTH_MAX: Final = 1024
_PROBLEM_LENGTH_MAX: Final = 512
_CHUNKS_KEPT: Final = 16
"""Chunks at the start of a source that are searched for markers of a template."""
_RENDER_FIRST: Final = (
    "it looks like a Helm template: render it first, as in: helm template CHART | bursar ... -f -"
)


class ManifestError(BadInputError):
    """A source, or an object in it, that cannot be read. The message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of an object in its source."""

    source: str
    document: int
    """The number of the YAML or JSON document in the source, from 1."""
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The objects of the kinds that Bursar reads, in the order of reading."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    templates: tuple[WorkloadTemplate, ...] = ()
    """Pod templates of workloads, with owner and number of replicas."""
    quotas: tuple[QuotaObject, ...] = ()
    namespaces: tuple[NamespaceObject, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    written: tuple[tuple[Pod | WorkloadTemplate, dict[str, Value]], ...] = ()
    """Pods and workloads in the order of reading, each with the object as it was written."""
    skipped: tuple[tuple[str, int], ...] = ()
    """The number of objects of each kind that Bursar does not read, sorted by kind."""
    bodies: Mapping[Resource, tuple[bytes, ...]] = field(default_factory=dict)
    """Whole objects of the kinds that were asked for, as JSON, in the order of reading."""
    values: tuple[dict[str, Value], ...] = ()
    """All objects as they were written, in the order of reading."""


def read_objects_as_written(
    paths: Sequence[str], stdin: BinaryIO, *, is_recursive: bool = False
) -> tuple[tuple[dict[str, Json], Origin], ...]:
    """All objects of the sources, of any kind, as plain data. Raises `ManifestError`.

    The fields that Bursar reads are validated as in `read_manifests`.
    """
    return tuple(
        ({name: plain(value) for name, value in body.items()}, origin)
        for body, origin in read_exact_objects(paths, stdin, is_recursive=is_recursive)
    )


def read_exact_objects(
    paths: Sequence[str], stdin: BinaryIO, *, is_recursive: bool = False
) -> tuple[tuple[dict[str, Value], Origin], ...]:
    """All objects, with every number as it was written. Raises `ManifestError`.

    Apart from numbers, they are those of `read_objects_as_written`.
    """
    written = _read_all(paths, stdin, is_recursive=is_recursive).written
    return tuple((entry.value, _origin(name, entry)) for name, entry in written)


def _origin(source: str, entry: Entry) -> Origin:
    return Origin(source=source, document=entry.document.number, line=entry.place.line)


def plain(value: Value) -> Json:
    """The value with floats for numbers that were kept as text."""
    match value:
        case Number():
            return float(value.text) if value.meaning is None else value.meaning
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case _:
            return value


def read_manifests(
    paths: Sequence[str],
    stdin: BinaryIO,
    *,
    kept: Sequence[Resource] = (),
    is_recursive: bool = False,
) -> Manifests:
    """Read files, folders and standard input (`-`), in the given order.

    Objects of the kinds in `kept` are returned whole as well. Raises `ManifestError` for the first
    problem, and for a source without objects.
    """
    with _without_garbage_collection():
        return _read_all(paths, stdin, kept, is_recursive=is_recursive).manifests()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Read without looking for cycles, since what is read has none.

    Of 20,000 pods that takes longer than reading them. They are not looked at afterwards either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def manifests_of(
    bodies: Mapping[Resource, Sequence[bytes]], *, kept: Sequence[Resource] = ()
) -> tuple[Manifests, list[str]]:
    """The objects of a cluster, read as if they were in a file.

    An object that cannot be read is left out, and a line says so.
    """
    collected = _Collected(bodies={resource: [] for resource in kept})
    problems: list[str] = []
    with _without_garbage_collection():
        for resource, objects in bodies.items():
            for body in objects:
                try:
                    _read_source(str(resource), [_typed(body, resource)], collected)
                except ManifestError as error:
                    problems.append(f"left out: {error}")
        return collected.manifests(), problems


def _typed(body: bytes, resource: Resource) -> bytes:
    """The object with apiVersion and kind, which the items of the API server's lists lack."""
    if body.startswith((b'{"kind":', b'{"apiVersion":')):
        return body
    head = f'{{"apiVersion":"{resource.api_version}","kind":"{resource.kind}",'
    return head.encode() + body.lstrip()[1:]


def _read_all(
    paths: Sequence[str],
    stdin: BinaryIO,
    kept: Sequence[Resource] = (),
    *,
    is_recursive: bool = False,
) -> "_Collected":
    collected = _Collected(bodies={resource: [] for resource in kept}, is_recursive=is_recursive)
    try:
        for path in paths:
            _read_path(path, stdin, collected)
    except SourceError as error:
        name = printable(error.name, _NAME_LENGTH_MAX)
        raise ManifestError(f"{name}: {printable(error.problem, _PROBLEM_LENGTH_MAX)}") from None
    return collected


@dataclass(slots=True)
class _Collected:
    """The objects that were read so far."""

    entries: list[tuple[Decoded, dict[str, Value]]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    written: list[tuple[str, Entry]] = field(default_factory=list)
    """All objects, each with the name of its source."""
    is_stdin_read: bool = False
    is_recursive: bool = False
    bodies: dict[Resource, list[bytes]] = field(default_factory=dict)

    def add(self, source: str, entry: Entry) -> None:
        self.written.append((source, entry))
        is_kept = self._keep(entry.value)
        if not isinstance(entry.decoded, Skipped):
            self.entries.append((entry.decoded, entry.value))
        elif not is_kept:
            self.skipped[entry.decoded.kind] += 1

    def _keep(self, value: dict[str, Value]) -> bool:
        """Keep an object of a kind that was asked for; false for any other object."""
        for resource, bodies in self.bodies.items():
            if (value["apiVersion"], value["kind"]) == (resource.api_version, resource.kind):
                bodies.append(_body(value, resource))
                return True
        return False

    def manifests(self) -> Manifests:
        return Manifests(
            pods=self._of(Pod),
            nodes=self._of(Node),
            templates=self._of(WorkloadTemplate),
            quotas=self._of(QuotaObject),
            namespaces=self._of(NamespaceObject),
            limit_ranges=self._of(LimitRange),
            runtime_classes=self._of(RuntimeClass),
            priority_classes=self._of(PriorityClass),
            autoscalers=self._of(Autoscaler),
            written=tuple(
                (decoded, value)
                for decoded, value in self.entries
                if isinstance(decoded, Pod | WorkloadTemplate)
            ),
            skipped=tuple(sorted(self.skipped.items())),
            bodies={resource: tuple(bodies) for resource, bodies in self.bodies.items()},
            values=tuple(entry.value for _, entry in self.written),
        )

    def _of(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(each for each, _ in self.entries if isinstance(each, kind))


def _body(value: dict[str, Value], resource: Resource) -> bytes:
    """The object as JSON, in the namespace in which kubectl would create it."""
    metadata = value.get("metadata")
    if resource.is_namespaced and isinstance(metadata, dict) and not metadata.get("namespace"):
        value = {**value, "metadata": {**metadata, "namespace": DEFAULT_NAMESPACE}}
    # Without blanks, as the API server writes it: a counter may search the bytes before it decodes.
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False).encode()


def _read_path(path: str, stdin: BinaryIO, collected: _Collected) -> None:
    if path == sources.STDIN:
        if collected.is_stdin_read:
            raise SourceError(sources.STDIN_NAME, "can be read only once")
        collected.is_stdin_read = True
        chunks = sources.chunks_of_stream(stdin)
        if not _read_source(sources.STDIN_NAME, chunks, collected):
            raise SourceError(sources.STDIN_NAME, "no Kubernetes object in it")
    elif sources.is_folder(path):
        _read_folder(path, collected)
    elif not _read_file(path, collected):
        raise SourceError(path, "no Kubernetes object in it")


def _read_folder(folder: str, collected: _Collected) -> None:
    """Read the manifests of a folder. At least one of them must have an object."""
    paths = sources.manifests_in(folder, is_recursive=collected.is_recursive)
    if not paths:
        extensions = ", ".join(sources.EXTENSIONS)
        unread = not collected.is_recursive and sources.has_subfolders(folder)
        hint = "; -R looks in its subfolders as well" if unread else ""
        raise SourceError(folder, f"no manifest in this folder (looked for {extensions}){hint}")
    if not sum(_read_file(path, collected) for path in paths):
        raise SourceError(folder, "no Kubernetes object in the manifests of this folder")


def _read_file(path: str, collected: _Collected) -> int:
    with closing(sources.chunks_of_file(path, bytes_max=SOURCE_BYTES_MAX)) as chunks:
        return _read_source(path, chunks, collected)


def _read_source(name: str, chunks: Iterable[bytes], collected: _Collected) -> int:
    """Read all objects of a source and return the number of its non-empty documents."""
    count = 0
    watched = _Watched(chunks)
    try:
        for document in read_documents(watched):
            count += 1
            _read_document(name, document, collected)
    except DocumentError as error:
        refusal = _manifest_error(name, error, "")
        if watched.has_markers:
            raise ManifestError(f"{refusal}; {_RENDER_FIRST}") from None
        raise refusal from None
    except ObjectError as error:
        raise _manifest_error(name, error, error.subject, error.found) from None
    return count


class _Watched:
    """The chunks of a source. The first ones are kept, to look for markers of a template."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._first: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if len(self._first) < _CHUNKS_KEPT:
                self._first.append(chunk)
            yield chunk

    @property
    def has_markers(self) -> bool:
        return b"{{" in b"".join(self._first)


def _read_document(name: str, document: Document, collected: _Collected) -> None:
    for entry in read_objects(document):
        collected.add(name, entry)


def _manifest_error(
    name: str, error: DocumentError | ObjectError, subject: str, found: str | None = None
) -> ManifestError:
    parts = [
        f"{printable(name, _NAME_LENGTH_MAX)}:{error.place}",
        subject,
        printable(error.field, FIELD_LENGTH_MAX),
        printable(error.problem, _PROBLEM_LENGTH_MAX),
    ]
    line = ": ".join(part for part in parts if part)
    if found is None:
        return ManifestError(line)
    meant = likely_quantity(found)
    hint = "" if meant is None else f"; did you mean {meant}?"
    return ManifestError(f"{line} (found {quoted(found)}{hint})")
