"""Problems of pods' devices, told once each and counted as long as they last."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bursar.app.devices.counters import ProxyCounts
from bursar.app.devices.ports import Reporter
from bursar.core.devices.allocation import Holdings, PodKey, Problem, ReportedPod
from bursar.core.devices.conflicts import claimed_twice
from bursar.core.devices.pod import DevicePod


@dataclass(slots=True, eq=False)
class Telling:
    reporter: Reporter
    counts: ProxyCounts
    _told: dict[tuple[PodKey, str], set[Problem]] = field(default_factory=dict, init=False)

    def look(
        self,
        pods: Mapping[PodKey, DevicePod],
        holdings: Mapping[PodKey, Holdings],
        reported: Iterable[ReportedPod],
    ) -> None:
        """Tell what is new. A pod's problems are forgotten with the pod, not before."""
        standing = _problems(pods, holdings, reported)
        self.counts.standing = Counter(
            problem.kind for problems in standing.values() for problem in problems
        )
        self._told = {
            (key, uid): told
            for (key, uid), told in self._told.items()
            if key in pods and pods[key].uid == uid
        }
        for key, problems in standing.items():
            told = self._told.setdefault((key, pods[key].uid), set())
            for problem in problems:
                if problem not in told:
                    told.add(problem)
                    self.counts.problems[problem.kind] += 1
                    self.reporter.tell(pods[key], problem)


def _problems(
    pods: Mapping[PodKey, DevicePod],
    holdings: Mapping[PodKey, Holdings],
    reported: Iterable[ReportedPod],
) -> dict[PodKey, list[Problem]]:
    standing = {key: list(held.problems) for key, held in holdings.items() if held.problems}
    for key, problems in claimed_twice(holdings.values(), reported).items():
        if key in pods:
            standing.setdefault(key, []).extend(problems)
    return standing
