"""What a node's pods use of its disk, and which of them the kubelet evicts, and when.

Figures come from two sides. Folders that the agent measures are fresh. The writable layer of a
container is known only to the kubelet, from its `/stats/summary`. Where the agent does not measure,
or could not measure to the end, the kubelet's figure stands in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bursar.app.storage.ports import DiskUse
from bursar.core.storage.limits import LimitKind, LimitState, exceeded_limit, limit_states
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pressure import (
    Filesystem,
    SignalState,
    Threshold,
    eviction_order,
    signal_states,
)
from bursar.core.storage.rate import Growth, seconds_until
from bursar.core.storage.summary import PodSummary, Summary
from bursar.core.storage.usage import ContainerUse, Measure, PodUse, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A limit of a pod, and when it is exceeded at the present rate."""

    state: LimitState
    bytes_per_second: int | None = None
    """None while the rate is not known."""
    seconds: int | None = None
    """0 if it is exceeded now; None if it never is, or the rate is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStorage:
    pod: StoragePod
    use: PodUse
    limits: tuple[Forecast, ...] = ()
    """In the kubelet's order."""
    bytes_per_second: int | None = None
    """How fast the pod's whole use grows."""
    place: int | None = None
    """Place in the order of eviction under disk pressure, from 1; None if it is never evicted."""

    @property
    def evicted_for(self) -> LimitState | None:
        """The limit for which the kubelet evicts the pod now; None if it does not."""
        if self.pod.is_critical:
            return None
        return exceeded_limit(tuple(each.state for each in self.limits))

    @property
    def next_limit(self) -> Forecast | None:
        """The limit that is exceeded first; without known rates, the one with least space left."""
        if self.evicted_for is not None:
            return next(each for each in self.limits if each.state.is_exceeded)
        soonest = [each for each in self.limits if each.seconds is not None]
        if soonest:
            return min(soonest, key=lambda each: each.seconds or 0)
        return min(self.limits, key=lambda each: each.state.bytes_left, default=None)

    @property
    def seconds_left(self) -> int | None:
        """Seconds until the kubelet evicts the pod for a limit; None if never, or if not known."""
        if self.pod.is_critical or self.next_limit is None:
            return None
        return self.next_limit.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalForecast:
    state: SignalState
    seconds: int | None = None
    """When the threshold is met at the present rate; None if it is not, or not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    node: str
    rows: tuple[PodStorage, ...] = ()
    """By use, the largest first."""
    signals: tuple[SignalForecast, ...] = ()
    nodefs: Filesystem | None = None
    allocatable: int | None = None
    requested: int = 0
    """Sum of the pods' requests."""
    has_image_filesystem: bool = False
    problem: str = ""
    """Why figures are missing; empty if nothing is."""

    @property
    def order(self) -> Sequence[PodStorage]:
        """The pods in the order in which the kubelet evicts them under disk pressure."""
        placed = [row for row in self.rows if row.place is not None]
        return sorted(placed, key=lambda row: row.place or 0)


@dataclass(slots=True)
class GrowthHistory:
    """The recent amounts of each limit, pod and signal."""

    _growth: dict[tuple[str, str, str], Growth] = field(default_factory=dict)

    def keep(self, keys: Iterable[tuple[str, str, str]]) -> None:
        known = set(keys)
        self._growth = {key: each for key, each in self._growth.items() if key in known}

    def add(self, key: tuple[str, str, str], at_ms: int, amount: int) -> int | None:
        """Add a sample, and return the rate per second."""
        growth = self._growth.setdefault(key, Growth())
        growth.add(at_ms, amount)
        return growth.bytes_per_second

    def __len__(self) -> int:
        return len(self._growth)


# ------------------------------------------------------------------ use of one pod


def pod_use(pod: StoragePod, disk: DiskUse | None, summary: PodSummary | None) -> PodUse:
    """What a pod uses, from its folders and from the kubelet's figures."""
    if disk is None:
        return _use_by_kubelet(pod, summary) if summary is not None else PodUse()
    volumes = {
        name: _whole(measure, None if summary is None else summary.volumes.get(name))
        for name, measure in disk.volumes.items()
    }
    if summary is None:
        # Logs of init containers that have ended are here too. The kubelet does not count them.
        names = {each.name for each in pod.containers}
        logs = {name: size for name, size in disk.logs.items() if name in names}
        containers = {name: ContainerUse(logs=size) for name, size in logs.items()}
    else:
        containers = {
            name: replace(each, logs=disk.logs.get(name, each.logs))
            for name, each in summary.containers.items()
        }
    return PodUse(containers=containers, volumes=volumes, other=disk.other)


def _whole(measure: Measure, by_kubelet: int | None) -> Measure:
    """The kubelet's figure in the place of one that is not complete, if it is larger."""
    if measure.is_complete or by_kubelet is None or by_kubelet < measure.used:
        return measure
    return Measure(used=by_kubelet, way=Way.KUBELET, problem=measure.problem)


def _use_by_kubelet(pod: StoragePod, summary: PodSummary) -> PodUse:
    in_memory = {each.name for each in pod.volumes if not each.is_on_disk}
    on_disk = {each.name for each in pod.volumes} - in_memory
    volumes = {
        name: Measure(used=used, way=Way.KUBELET)
        for name, used in summary.volumes.items()
        if name in on_disk
    }
    counted = sum(each.used for each in volumes.values()) + sum(
        (each.writable or 0) + (each.logs or 0) for each in summary.containers.values()
    )
    # ConfigMap volumes, `/etc/hosts` and the like: what the kubelet's sum has besides.
    other = max(0, (summary.ephemeral or 0) - counted)
    return PodUse(containers=summary.containers, volumes=volumes, other=other)


# ------------------------------------------------------------------ the whole node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of a node at one time."""

    node: str
    at_ms: int
    pods: Sequence[StoragePod]
    disk: Mapping[str, DiskUse] | None = None
    """By uid; None where no folders are measured."""
    summary: Summary | None = None
    nodefs: Filesystem | None = None
    allocatable: int | None = None
    thresholds: Sequence[Threshold] = ()
    problem: str = ""


def node_report(facts: NodeFacts, history: GrowthHistory) -> NodeReport:
    """Decide what is true of the node. Rates come from `history`, which gets the new samples."""
    has_image_filesystem = facts.summary is not None and facts.summary.has_image_filesystem
    pods = [pod for pod in facts.pods if not pod.is_ended]
    uses = {pod.uid: _use(pod, facts) for pod in pods}
    order = eviction_order(
        [(pod, uses[pod.uid]) for pod in pods], has_image_filesystem=has_image_filesystem
    )
    places = {pod.uid: place for place, pod in enumerate(order, 1)}
    nodefs = facts.nodefs or (None if facts.summary is None else facts.summary.nodefs)
    keys: list[tuple[str, str, str]] = []

    def rate(key: tuple[str, str, str], amount: int) -> int | None:
        keys.append(key)
        return history.add(key, facts.at_ms, amount)

    rows = [
        PodStorage(
            pod=pod,
            use=uses[pod.uid],
            limits=tuple(
                _forecast(state, rate((pod.uid, state.kind.value, state.name), state.used))
                for state in limit_states(
                    pod, uses[pod.uid], has_image_filesystem=has_image_filesystem
                )
            ),
            bytes_per_second=rate((pod.uid, "", ""), uses[pod.uid].total),
            place=places.get(pod.uid),
        )
        for pod in pods
    ]
    signals: list[SignalForecast] = []
    if nodefs is not None:
        imagefs = facts.summary.imagefs if has_image_filesystem and facts.summary else nodefs
        for state in signal_states(facts.thresholds, nodefs, imagefs):
            shrinking = rate(("", state.signal.value, ""), -state.available)
            signals.append(
                SignalForecast(state=state, seconds=seconds_until(state.left, shrinking))
            )
    history.keep(keys)
    return NodeReport(
        node=facts.node,
        rows=tuple(sorted(rows, key=lambda row: (-row.use.total, row.pod.key))),
        signals=tuple(signals),
        nodefs=nodefs,
        allocatable=facts.allocatable,
        requested=sum(pod.request.whole_units for pod in pods),
        has_image_filesystem=has_image_filesystem,
        problem=facts.problem,
    )


def _use(pod: StoragePod, facts: NodeFacts) -> PodUse:
    disk = None if facts.disk is None else facts.disk.get(pod.uid)
    return pod_use(pod, disk, None if facts.summary is None else facts.summary.pods.get(pod.uid))


def _forecast(state: LimitState, bytes_per_second: int | None) -> Forecast:
    return Forecast(
        state=state,
        bytes_per_second=bytes_per_second,
        seconds=seconds_until(state.bytes_left, bytes_per_second),
    )


def over_limits(report: NodeReport) -> Mapping[LimitKind, int]:
    """How many pods the kubelet evicts now, by the kind of limit."""
    counts = dict.fromkeys(LimitKind, 0)
    for row in report.rows:
        if row.evicted_for is not None:
            counts[row.evicted_for.kind] += 1
    return counts
