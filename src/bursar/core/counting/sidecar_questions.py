"""Questions to a sidecar, in an order that is fair to namespaces."""

from dataclasses import dataclass, field
from typing import NamedTuple

from bursar.core.counting.pod_body import PodBody
from bursar.core.model.pod_row import PodRow
from bursar.core.model.resources import ResourceList


class SidecarAnswer(NamedTuple):
    epoch: int
    """Which connection of the slot gave the answer."""
    generation: int
    """Which state of the namespace the sidecar saw."""
    amounts: ResourceList | None
    """None if the sidecar does not count the pod."""


@dataclass(slots=True, eq=False)
class Question:
    """One content of a pod, and what the sidecars answered about it, by slot."""

    row: PodRow
    body: PodBody
    answers: dict[int, SidecarAnswer] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    is_known: bool = False
    """Whether all sidecars have answered about this pod, or about an earlier content of it."""

    @property
    def is_open(self) -> bool:
        """Whether the pod has not ended. Pods that ended are only shown with others."""
        return not self.row.is_terminated

    @property
    def is_gated(self) -> bool:
        return bool(self.row.profile.gates)


class QuestionQueue:
    """First in, first out within a namespace; namespaces take turns.

    A tenant with many pods must not delay the pods of others.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Question, None]] = {}

    def put(self, question: Question) -> None:
        self._waiting.setdefault(question.row.namespace, {})[question] = None

    def pop(self) -> Question | None:
        """The next question; None if there is none."""
        if not self._waiting:
            return None
        namespace = next(iter(self._waiting))
        questions = self._waiting.pop(namespace)
        question = next(iter(questions))
        del questions[question]
        if questions:
            self._waiting[namespace] = questions
        return question

    def discard(self, question: Question) -> None:
        questions = self._waiting.get(question.row.namespace)
        if questions is not None:
            questions.pop(question, None)
            if not questions:
                del self._waiting[question.row.namespace]

    def has(self, namespace: str) -> bool:
        return namespace in self._waiting

    def clear(self) -> None:
        self._waiting.clear()
