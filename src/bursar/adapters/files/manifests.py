"""What the command line's `-f` reads: pods, nodes, workloads and quotas, from many sources.

Whatever is wrong with a source, the answer is one `ManifestError` whose text is
one short line: where, which object, which field, and why. It is safe to print,
and of the manifest it quotes only a quantity, a time, a kind or a name.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from bursar.adapters.files import sources
from bursar.adapters.files.sources import SourceError
from bursar.app.cluster.ports import Json
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.quota.reported import QuotaObject
from bursar.wire.documents.stream import Document, read_documents
from bursar.wire.documents.text import SOURCE_BYTES_MAX, DocumentError
from bursar.wire.documents.tree import Number, Value
from bursar.wire.model.objects import Entry, ObjectError, read_objects
from bursar.wire.model.workload import WorkloadTemplate
from bursar.wire.structs.fields import FIELD_LENGTH_MAX, printable, quoted

__all__ = [
    "ManifestError",
    "Manifests",
    "NamespaceObject",
    "Origin",
    "QuotaObject",
    "WorkloadTemplate",
    "read_exact_objects",
    "read_manifests",
    "read_objects_as_written",
]

_NAME_LENGTH_MAX: Final = 1024
_PROBLEM_LENGTH_MAX: Final = 512


class ManifestError(Exception):
    """A source, or an object in it, that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an object was read."""

    source: str
    document: int
    """Its number in the source, from 1."""
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """What was read, in the order of reading; each origin is that of the object beside it."""

    pods: tuple[Pod, ...] = ()
    pod_origins: tuple[Origin, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_origins: tuple[Origin, ...] = ()
    templates: tuple[WorkloadTemplate, ...] = ()
    """Pods that workloads would make, with their owner and how many."""
    template_origins: tuple[Origin, ...] = ()
    quotas: tuple[QuotaObject, ...] = ()
    quota_origins: tuple[Origin, ...] = ()
    namespaces: tuple[NamespaceObject, ...] = ()
    namespace_origins: tuple[Origin, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    """Kinds that are not read, sorted, and how many there were of each."""


def read_objects_as_written(
    paths: Sequence[str], stdin: BinaryIO
) -> tuple[tuple[dict[str, Json], Origin], ...]:
    """Every object in the sources, of whatever kind, as plain data. Raises `ManifestError`.

    What Bursar reads of an object is checked all the same.
    """
    return tuple(
        ({name: _plain(value) for name, value in body.items()}, origin)
        for body, origin in read_exact_objects(paths, stdin)
    )


def read_exact_objects(
    paths: Sequence[str], stdin: BinaryIO
) -> tuple[tuple[dict[str, Value], Origin], ...]:
    """The same objects, with every number as it was written. Raises `ManifestError`."""
    return tuple(_read_all(paths, stdin).written)


def _plain(value: Value) -> Json:
    """The same data without what only readers of quantities need: the text of a number."""
    match value:
        case Number():
            return float(value.text) if value.meaning is None else value.meaning
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case _:
            return value


def read_manifests(paths: Sequence[str], stdin: BinaryIO) -> Manifests:
    """Read files, the manifests in folders, and standard input for `-`, in that order.

    Raises `ManifestError` for the first thing that is wrong, and for a source without objects.
    """
    return _read_all(paths, stdin).manifests()


def _read_all(paths: Sequence[str], stdin: BinaryIO) -> "_Shelf":
    shelf = _Shelf()
    try:
        for path in paths:
            _read_path(path, stdin, shelf)
    except SourceError as error:
        name = printable(error.name, _NAME_LENGTH_MAX)
        raise ManifestError(f"{name}: {printable(error.problem, _PROBLEM_LENGTH_MAX)}") from None
    return shelf


@dataclass(slots=True)
class _Shelf:
    """What was read so far."""

    pods: list[tuple[Pod, Origin]] = field(default_factory=list)
    nodes: list[tuple[Node, Origin]] = field(default_factory=list)
    templates: list[tuple[WorkloadTemplate, Origin]] = field(default_factory=list)
    quotas: list[tuple[QuotaObject, Origin]] = field(default_factory=list)
    namespaces: list[tuple[NamespaceObject, Origin]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    written: list[tuple[dict[str, Value], Origin]] = field(default_factory=list)
    is_stdin_read: bool = False

    def put(self, entry: Entry, origin: Origin) -> None:
        self.written.append((entry.value, origin))
        decoded = entry.decoded
        if isinstance(decoded, Pod):
            self.pods.append((decoded, origin))
        elif isinstance(decoded, Node):
            self.nodes.append((decoded, origin))
        elif isinstance(decoded, WorkloadTemplate):
            self.templates.append((decoded, origin))
        elif isinstance(decoded, QuotaObject):
            self.quotas.append((decoded, origin))
        elif isinstance(decoded, NamespaceObject):
            self.namespaces.append((decoded, origin))
        else:
            self.skipped[decoded.kind] += 1

    def manifests(self) -> Manifests:
        return Manifests(
            pods=tuple(pod for pod, _ in self.pods),
            pod_origins=tuple(origin for _, origin in self.pods),
            nodes=tuple(node for node, _ in self.nodes),
            node_origins=tuple(origin for _, origin in self.nodes),
            templates=tuple(template for template, _ in self.templates),
            template_origins=tuple(origin for _, origin in self.templates),
            quotas=tuple(quota for quota, _ in self.quotas),
            quota_origins=tuple(origin for _, origin in self.quotas),
            namespaces=tuple(namespace for namespace, _ in self.namespaces),
            namespace_origins=tuple(origin for _, origin in self.namespaces),
            skipped=tuple(sorted(self.skipped.items())),
        )


def _read_path(path: str, stdin: BinaryIO, shelf: _Shelf) -> None:
    if path == sources.STDIN:
        if shelf.is_stdin_read:
            raise SourceError(sources.STDIN_NAME, "can be read only once")
        shelf.is_stdin_read = True
        chunks = sources.chunks_of_stream(stdin)
        if not _read_source(sources.STDIN_NAME, chunks, shelf):
            raise SourceError(sources.STDIN_NAME, "no Kubernetes object in it")
    elif sources.is_folder(path):
        _read_folder(path, shelf)
    elif not _read_file(path, shelf):
        raise SourceError(path, "no Kubernetes object in it")


def _read_folder(folder: str, shelf: _Shelf) -> None:
    """A file without objects is fine in a folder, unless all are so."""
    paths = sources.manifests_in(folder)
    if not paths:
        extensions = ", ".join(sources.EXTENSIONS)
        raise SourceError(folder, f"no manifest in this folder (looked for {extensions})")
    if not sum(_read_file(path, shelf) for path in paths):
        raise SourceError(folder, "no Kubernetes object in the manifests of this folder")


def _read_file(path: str, shelf: _Shelf) -> int:
    with closing(sources.chunks_of_file(path, bytes_max=SOURCE_BYTES_MAX)) as chunks:
        return _read_source(path, chunks, shelf)


def _read_source(name: str, chunks: Iterable[bytes], shelf: _Shelf) -> int:
    """Put all objects of a source on the shelf; how many documents it had that are not empty."""
    count = 0
    try:
        for document in read_documents(chunks):
            count += 1
            _read_document(name, document, shelf)
    except DocumentError as error:
        raise _manifest_error(name, error, "") from None
    except ObjectError as error:
        raise _manifest_error(name, error, error.subject, error.found) from None
    return count


def _read_document(name: str, document: Document, shelf: _Shelf) -> None:
    for entry in read_objects(document):
        shelf.put(entry, Origin(source=name, document=document.number, line=entry.place.line))


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
    return ManifestError(line if found is None else f"{line} (found {quoted(found)})")
