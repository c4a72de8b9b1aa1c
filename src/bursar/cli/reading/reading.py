"""Where a verb reads: files, a kustomization, or the cluster kubectl would talk to.

All three end in the same `Objects`, so a verb says what it wants to read and what it makes of it,
and gets `-f`, `-k`, a live cluster and `-w` with that.
"""

import io
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import click

from bursar.cli import options
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.live_cluster import (
    LiveCluster,
    answer_of,
    cluster_options,
    kubectls_namespace,
    live_cluster,
)
from bursar.cli.output.formats import printable
from bursar.core.model.namespace import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from bursar.adapters.files.manifests import Manifests
    from bursar.app.cluster.ports import Resource
    from bursar.app.cluster.reading.collection import Collection
    from bursar.app.cluster.reading.wanted import Wanted
    from bursar.core.model.selectors.selector import Selector
    from bursar.wire.documents.tree import Value
    from bursar.wire.field_selector import FieldSelector

Selects: TypeAlias = Callable[[str, str], bool]
"""Whether the object of a namespace and name is among those that the command line selects."""

METRICS: Final = ".metrics.k8s.io"
"""How the names of NodeMetrics and PodMetrics end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What was read, from wherever it was."""

    manifests: "Manifests"
    bodies: "Mapping[Resource, Sequence[bytes]]" = field(default_factory=dict)
    """Of a cluster: whole objects, as the API server sent them."""
    missing: tuple[str, ...] = ()
    """Kinds that could not be read, each with the reason. Empty for files."""
    selected: frozenset[tuple[str, str, str]] | None = None
    """Kind, namespace and name of what `-l` and `--field-selector` select; None: everything."""

    def is_selected(self, kind: str, namespace: str, name: str) -> bool:
        """Whether an object is among those that the command line selects by labels and fields."""
        identity = (kind, namespace or DEFAULT_NAMESPACE, name)
        return self.selected is None or identity in self.selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The options that say where to read, and which objects to show."""

    files: Sequence[str] = ()
    is_recursive: bool = False
    kustomization: str | None = None
    kubeconfig: str | None = None
    context: str = ""
    namespace: str | None = None
    all_namespaces: bool = False
    selector: "Selector | None" = None
    field_selector: "FieldSelector | None" = None
    is_watching: bool = False

    @property
    def is_live(self) -> bool:
        return not self.files and self.kustomization is None

    def __str__(self) -> str:
        """The place, for messages."""
        if self.is_live:
            return "the cluster"
        return ", ".join(map(printable, self.files or (self.kustomization or "",)))

    @property
    def shown_namespace(self) -> str:
        """The namespace to show; empty for all.

        As in kubectl, it is the namespace of the context for a cluster, unless `-n` or `-A` is
        given. Files are shown with all their namespaces, unless `-n` is given.
        """
        if self.namespace is not None:
            return self.namespace
        if self.all_namespaces or not self.is_live:
            return ""
        return kubectls_namespace(self.kubeconfig, self.context)

    def read(
        self,
        wanted: "Sequence[Wanted]",
        *,
        kept: "Sequence[Resource]" = (),
        ignores_templates: bool = False,
    ) -> Objects:
        """Read once, and tell what was left out. Raises `BadInputError`.

        With `ignores_templates`, workloads in files are among what was left out.
        """
        if not self.is_live:
            return self._read_files(kept, ignores_templates=ignores_templates)
        return answer_of(self._read_cluster(wanted, kept))

    def repeat(
        self, watched: "Sequence[Wanted]", work: Callable[[LiveCluster], Awaitable[int]]
    ) -> int:
        """Do work on the cluster; with `-w` again after each change of what is watched.

        For verbs that read a cluster in a form of their own. Returns the exit code. Raises
        `BadInputError`.
        """
        return answer_of(self._repeat(watched, work))

    def show(
        self,
        wanted: "Sequence[Wanted]",
        show: Callable[[Objects], int],
        *,
        kept: "Sequence[Resource]" = (),
        ignores_templates: bool = False,
    ) -> int:
        """Read as `read` does, and show; with `-w` again after each change, until Ctrl-C.

        Returns the exit code. Raises `BadInputError`.
        """
        if not self.is_watching:
            return show(self.read(wanted, kept=kept, ignores_templates=ignores_templates))
        return answer_of(self._follow_cluster(wanted, show, kept))

    # -------------------------------------------------------------- files

    def sources(self) -> tuple[Sequence[str], BinaryIO]:
        """The files, and what `-` stands for among them. Raises `BadInputError`."""
        if self.kustomization is None:
            return self.files, sys.stdin.buffer
        from bursar.adapters.files.kustomize import built  # noqa: PLC0415 - rarely used

        return ["-"], io.BytesIO(built(self.kustomization))

    def _read_files(self, kept: "Sequence[Resource]", *, ignores_templates: bool) -> Objects:
        from bursar.adapters.files.manifests import read_manifests  # noqa: PLC0415 - imports YAML

        paths, stdin = self.sources()
        manifests = read_manifests(paths, stdin, kept=kept, is_recursive=self.is_recursive)
        # bursar top reads the metrics that are in the same files; to others they mean nothing.
        skipped = Counter(
            {kind: count for kind, count in manifests.skipped if not kind.endswith(METRICS)}
        )
        if ignores_templates:
            skipped.update(template.owner_kind for template in manifests.templates)
        if skipped:
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
            click.echo(f"bursar: skipped: {printable(listed)}", err=True)
        return Objects(manifests=manifests, selected=self._selected(manifests.values))

    # -------------------------------------------------------------- a cluster

    async def _read_cluster(
        self, wanted: "Sequence[Wanted]", kept: "Sequence[Resource]"
    ) -> Objects:
        from bursar.app.cluster.reading.collection import Collection  # noqa: PLC0415 - imports asyncio

        async with live_cluster(self.kubeconfig, self.context) as cluster:
            with shown_progress() as progress:
                collection = Collection(cluster, wanted, progress=progress)
                await collection.load()
            return self._objects_of(collection, kept, _tell)

    async def _repeat(
        self, watched: "Sequence[Wanted]", work: Callable[[LiveCluster], Awaitable[int]]
    ) -> int:
        from bursar.adapters.clock import SYSTEM_CLOCK  # noqa: PLC0415 - only for clusters
        from bursar.app.cluster.changes import repeat_on_changes  # noqa: PLC0415

        async with live_cluster(self.kubeconfig, self.context) as cluster:
            if not self.is_watching:
                return await work(cluster)

            async def again() -> None:
                # While the command follows the cluster, exit codes of single rounds are ignored.
                await work(cluster)
                # Output must not wait in a buffer.
                sys.stdout.flush()

            await repeat_on_changes(cluster, watched, again, SYSTEM_CLOCK)
        return OK

    async def selected_in(self, cluster: LiveCluster, resource: "Resource") -> Selects:
        """The objects of a kind that `-l` and `--field-selector` select, as the server says.

        Raises `ClusterError`.
        """
        if self.selector is None and self.field_selector is None:
            return lambda _namespace, _name: True
        from bursar.app.cluster.ports import Query  # noqa: PLC0415
        from bursar.app.cluster.reading.listing import list_all  # noqa: PLC0415 - only for clusters
        from bursar.app.cluster.sighting import locate  # noqa: PLC0415

        query = Query(
            namespace=self.shown_namespace if resource.is_namespaced else "",
            label_selector=str(self.selector or ""),
            field_selector=str(self.field_selector or ""),
        )
        found = await list_all(cluster, resource, query, locate)
        keys = {(each.key.namespace, each.key.name) for each in found if each is not None}
        return lambda namespace, name: (namespace, name) in keys

    async def _follow_cluster(
        self,
        wanted: "Sequence[Wanted]",
        show: Callable[[Objects], int],
        kept: "Sequence[Resource]",
    ) -> int:
        from bursar.app.cluster.reading.collection import Collection  # noqa: PLC0415 - imports asyncio

        async with live_cluster(self.kubeconfig, self.context) as cluster:
            collection = Collection(cluster, wanted)
            await collection.load()
            told: set[str] = set()

            def tell_once(line: str) -> None:
                if line not in told:
                    told.add(line)
                    _tell(line)

            def show_again() -> None:
                # While the command follows the cluster, exit codes of single rounds are ignored.
                show(self._objects_of(collection, kept, tell_once))
                # Output must not wait in a buffer.
                sys.stdout.flush()

            show_again()
            await collection.follow(show_again)
        return OK

    def _objects_of(
        self, collection: "Collection", kept: "Sequence[Resource]", tell: Callable[[str], None]
    ) -> Objects:
        from bursar.adapters.files.manifests import manifests_of  # noqa: PLC0415 - imports YAML

        manifests, problems = manifests_of(collection.decoded, kept=kept)
        for problem in [*problems, *(f"not read: {each}" for each in collection.missing)]:
            tell(problem)
        return Objects(
            manifests=manifests,
            bodies=collection.bodies,
            missing=tuple(collection.missing),
            selected=self._selected_bodies(collection.bodies),
        )

    def _selected_bodies(
        self, bodies: "Mapping[Resource, Sequence[bytes]]"
    ) -> frozenset[tuple[str, str, str]] | None:
        if self.selector is None and self.field_selector is None:
            return None
        return self._selected(
            [
                {**json.loads(body), "kind": resource.kind}
                for resource, each in bodies.items()
                for body in each
            ]
        )

    # -------------------------------------------------------------- both

    def _selected(
        self, values: "Sequence[dict[str, Value]]"
    ) -> frozenset[tuple[str, str, str]] | None:
        if self.selector is None and self.field_selector is None:
            return None
        return frozenset(_identity(value) for value in values if self.selects(value))

    def selects(self, value: "Mapping[str, Value]") -> bool:
        """Whether the labels and fields of an object are those that the command line selects."""
        labels = _part(_part(value, "metadata"), "labels")
        texts = {name: text for name, text in labels.items() if isinstance(text, str)}
        return (self.selector is None or self.selector.matches(texts)) and (
            self.field_selector is None or self.field_selector.matches(value)
        )


def _tell(line: str) -> None:
    click.echo(f"bursar: {printable(line)}", err=True)


def _identity(value: "dict[str, Value]") -> tuple[str, str, str]:
    metadata = _part(value, "metadata")
    kind, namespace, name = value.get("kind"), metadata.get("namespace"), metadata.get("name")
    return (str(kind), str(namespace or DEFAULT_NAMESPACE), str(name))


def _part(value: "Mapping[str, Value]", name: str) -> "dict[str, Value]":
    part = value.get(name)
    return part if isinstance(part, dict) else {}


# ------------------------------------------------------------------ options


_recursive: Final = click.option(
    *("-R", "--recursive", "is_recursive"),
    is_flag=True,
    help="With -f: read the subfolders of a folder as well.",
)


def _kustomize(help: str) -> options.Option:
    return click.option(
        *("-k", "--kustomize", "kustomization"), type=click.Path(), metavar="DIR", help=help
    )


def _all_options(namespace_help: str) -> options.Option:
    """All options about where to read, but `-w`."""
    return options.together(
        options.files("Read manifests instead of a cluster: files, folders, or -. Repeatable."),
        _recursive,
        _kustomize("Read what kubectl kustomize makes of this folder, instead of a cluster."),
        cluster_options,
        click.option("-n", "--namespace", help=namespace_help),
        click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces."),
        click.option(
            *("-l", "--selector", "label_selector"),
            default="",
            metavar="LABELS",
            help="Only objects with these labels, as for kubectl: app=web,tier!=db.",
        ),
        click.option(
            "--field-selector",
            default="",
            metavar="FIELDS",
            help="Only objects with these fields: spec.nodeName=a,status.phase!=Running.",
        ),
    )


_BY_CONTEXT: Final = "Only this namespace. Default: that of the context; with files, all."
_ALL: Final = "Only this namespace. Default: all."
_NO_NAMESPACE: Final = "No effect: nodes have no namespace."
_watch: Final = click.option(
    *("-w", "--watch", "is_watching"),
    is_flag=True,
    help="Show changes of the cluster as they come, until Ctrl-C.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about where to read; the command receives `reading: Reading`.

    For a command that shows `reading.shown_namespace`.
    """
    return _all_options(_BY_CONTEXT)(_watch(_with_reading(command)))


def reading_all_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `reading_options`, for a command that shows all namespaces unless `-n` names one."""
    return _all_options(_ALL)(_watch(_with_reading(command)))


def reading_once_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `reading_all_options`, without `-w`."""
    return _all_options(_ALL)(_with_reading(command))


def reading_nodes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `reading_options`, for a command about nodes, which ignores `-n` and `-A`."""
    return _all_options(_NO_NAMESPACE)(_watch(_with_reading(command)))


def _with_reading(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def with_reading(  # noqa: PLR0913 - one for each option
        *args: Any,  # noqa: ANN401 - click's
        files: Sequence[str],
        is_recursive: bool,
        kustomization: str | None,
        kubeconfig: str | None,
        context: str,
        namespace: str | None,
        all_namespaces: bool,
        label_selector: str,
        field_selector: str,
        is_watching: bool = False,
        **others: Any,  # noqa: ANN401 - click's
    ) -> Any:  # noqa: ANN401 - click's
        reading = Reading(
            files=files,
            is_recursive=is_recursive,
            kustomization=kustomization,
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            all_namespaces=all_namespaces,
            selector=_selector_from(label_selector),
            field_selector=_field_selector_from(field_selector),
            is_watching=is_watching,
        )
        _require_consistent(reading)
        return command(*args, reading=reading, **others)

    return with_reading


_file_options: Final = options.together(
    options.files("Manifests to read: files, folders, or - for standard input. Repeatable."),
    _recursive,
    _kustomize("Read what kubectl kustomize makes of this folder."),
)


def files_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-f`, `-R` and `-k`, for a command that reads no cluster; it receives `reading`.

    If neither `-f` nor `-k` is given, `reading.is_live` is true, and the command must refuse it.
    """

    @_file_options
    @wraps(command)
    def with_files(
        *args: Any,  # noqa: ANN401 - click's
        files: Sequence[str],
        is_recursive: bool,
        kustomization: str | None,
        **others: Any,  # noqa: ANN401 - click's
    ) -> Any:  # noqa: ANN401 - click's
        reading = Reading(files=files, is_recursive=is_recursive, kustomization=kustomization)
        _require_consistent(reading)
        return command(*args, reading=reading, **others)

    return with_files


def _require_consistent(reading: Reading) -> None:
    if reading.files and reading.kustomization is not None:
        raise click.UsageError("-f and -k exclude each other")
    if not reading.is_live and (reading.kubeconfig is not None or reading.context):
        raise click.UsageError("-f and -k read files; --kubeconfig and --context, a cluster")
    if reading.is_recursive and not reading.files:
        raise click.UsageError("-R is about the folders of -f, and there is no -f")
    if reading.is_watching and not reading.is_live:
        raise click.UsageError("-w follows a cluster; files are read once")
    if reading.namespace is not None and reading.all_namespaces:
        raise click.UsageError("-n is for one namespace, -A for all")


def _selector_from(text: str) -> "Selector | None":
    if not text:
        return None
    from bursar.core.model.selectors.selector import SelectorError  # noqa: PLC0415 - rarely used
    from bursar.core.model.selectors.text import parse_selector  # noqa: PLC0415

    try:
        return parse_selector(text)
    except SelectorError as error:
        raise BadInputError(f"-l: {printable(str(error))}") from None


def _field_selector_from(text: str) -> "FieldSelector | None":
    if not text:
        return None
    from bursar.wire.field_selector import (  # noqa: PLC0415 - rarely used
        FieldSelectorError,
        parse_field_selector,
    )

    try:
        return parse_field_selector(text)
    except FieldSelectorError as error:
        raise BadInputError(f"--field-selector: {printable(str(error))}") from None


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int], None]]:
    """How far the work is, on a line of its own that disappears; only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _kind, _count: None
        return

    def show(kind: str, count: int) -> None:
        click.echo(f"\r\x1b[Kreading {kind}: {count}", err=True, nl=False)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)
