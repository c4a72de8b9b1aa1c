"""Counting by sidecars: what each sidecar answered about each pod, and which pods to ask about.

A sidecar is a program of the installation that counts pods in its own way. The table here is
pure: it remembers answers until their inputs change and says which question is next. The
feed (`app/counting/sidecars/feed.py`) asks the sidecars.

An answer belongs to the content of a pod, not to its name or resourceVersion: a pod that would be
resized has the resourceVersion of the stored pod. A sidecar may also look at the other pods of
the namespace. Such answers are asked for again in the background: see `start_sweeps`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from heapq import heappop, heappush
from typing import Final, NamedTuple

from bursar.core.counting.counter import Counted, Pending, fact_of
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.sidecar_questions import Question, QuestionQueue, SidecarAnswer
from bursar.core.model.pod_row import PodRow
from bursar.core.model.resources import NOTHING, ResourceList, add
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.names import is_pod_name, is_schedulable

RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 60_000
"""Back-off of one question: doubles from the first to the second."""
SWEEP_MS: Final = 5_000
SWEEP_MS_MAX: Final = 300_000
"""Pause before a namespace is swept again. It doubles while sweeps change no answer."""
TRIALS_MAX: Final = 256
TRIALS_BYTES_MAX: Final = 8 << 20
"""Pods that are not stored, such as those of a resize, whose answers are remembered, and their
compressed bytes. The latest is remembered in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarRules:
    expected: int
    """Number of sidecars. Pods are counted only while this many are connected."""
    falls_back: bool = False
    """Leave out a sidecar that fails, as AAQ does, instead of holding pods."""
    sees_namespace: bool = True
    """Whether sidecars receive the other pods of the namespace."""


class _Retry(NamedTuple):
    due_ms: int
    order: int
    question: Question


class Slot:
    """The place of one expected sidecar. After a restart, another socket takes it."""

    def __init__(self, index: int) -> None:
        self.index: Final = index
        self.name = ""
        """File name of the socket. Empty if no sidecar is connected."""
        self.epoch = 0
        self.problem = ""
        """Why the latest question was not answered in time; empty after an answer."""
        self.due: Final = QuestionQueue()
        self.stale: Final = QuestionQueue()
        self.retries: list[_Retry] = []
        self.tries: dict[Question, int] = {}

    def forget(self, question: Question) -> None:
        self.due.discard(question)
        self.stale.discard(question)
        self.tries.pop(question, None)

    def clear(self) -> None:
        self.due.clear()
        self.stale.clear()
        self.retries.clear()
        self.tries.clear()


class _Namespace:
    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.questions: dict[str, Question] = {}
        """Every pod of the namespace by name, ended ones included."""
        self.unknown: set[str] = set()
        """Running pods about which sidecars never answered, as after a change of leader.

        Their charges are provisional and may be too low, so gated pods wait for these answers.
        """
        self.generation = 0
        """Which state of the namespace this is. No other one, of any namespace, has the number."""
        self.swept_generation = 0
        self.is_sweeping = False
        self.sweep_changed = False
        self.pause_ms = SWEEP_MS
        self.next_sweep_ms = 0


class SidecarCounter:
    """The pod counter of all sidecars. Their amounts are added up, as AAQ does."""

    name: Final = "sidecars"

    def __init__(self, rules: SidecarRules, keep_body: Callable[[bytes], PodBody]) -> None:
        self._rules, self._keep_body = rules, keep_body
        self.slots: Final = tuple(Slot(index) for index in range(rules.expected))
        self.excess = 0
        """Sidecars that answer beyond the expected number."""
        self.is_settled = False
        """Whether sidecars had time to connect; until then a missing one is no failure."""
        self.on_due: Callable[[], None] = lambda: None
        """Called when there is a new question."""
        self._namespaces: dict[str, _Namespace] = {}
        self._unswept: dict[str, _Namespace] = {}
        """Namespaces that changed since their last sweep."""
        self._trials: dict[PodBody, Question] = {}
        self._trials_bytes = 0
        self._order = 0
        self._generation = 0
        """The latest of all namespaces. A namespace whose pods are gone is forgotten, and must not
        begin anew with numbers that it had: encoded pods are kept by them."""

    @property
    def falls_back(self) -> bool:
        """Whether pods are counted without a sidecar that fails."""
        return self._rules.falls_back

    # ------------------------------------------------------------------ the port of a pod counter

    def derive_facts(self, body: bytes) -> PodBody:
        return self._keep_body(body)

    def may_charge(self, resource: str) -> bool:
        """A sidecar may charge any name that pods can have."""
        return is_pod_name(resource) or is_schedulable(resource)

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:
        body = fact_of(row, PodBody)
        if body is None:
            return ()
        space = self._namespaces.get(row.namespace)
        if space is None:
            space = self._namespaces[row.namespace] = _Namespace(row.namespace)
        known = space.questions.get(row.name)
        if known is not None and known.body == body:
            known.row = row
            return ()
        question = self._take_trial(body) or Question(row, body)
        question.row = row
        if known is not None:
            question.is_known = known.is_known
        self._replace(space, row.name, question)
        self._ask(question)
        return self._freed(space, row.name)

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:
        space = self._namespaces.get(pod.namespace)
        if space is not None and pod.name in space.questions:
            self._replace(space, pod.name, None)
            if not space.questions:
                del self._namespaces[pod.namespace]
                self._unswept.pop(pod.namespace, None)
            return self._freed(space, pod.name)
        return ()

    def _freed(self, space: _Namespace, name: str) -> list[PodRow]:
        """Note whether the pod is unknown. Returns gated pods that waited for the last such pod."""
        question = space.questions.get(name)
        had_unknown = bool(space.unknown)
        if (
            question is None
            or question.is_known
            or question.is_gated
            or not question.is_open
            or self._rules.falls_back
        ):
            space.unknown.discard(name)
        else:
            space.unknown.add(name)
        if space.unknown or not had_unknown:
            return []
        return [each.row for each in space.questions.values() if each.is_gated]

    def _replace(self, space: _Namespace, name: str, question: Question | None) -> None:
        old = space.questions.pop(name, None)
        if old is not None:
            for slot in self.slots:
                slot.forget(old)
        if question is not None:
            space.questions[name] = question
        self._generation += 1
        space.generation = self._generation
        self._unswept[space.name] = space

    def _ask(self, question: Question) -> None:
        if not question.is_open:
            return
        for slot in self.slots:
            if slot.name and not self._is_answered(slot, question):
                slot.due.put(question)
        self.on_due()

    def count(self, row: PodRow) -> Counted | Pending | None:
        question = self._find(row)
        if question is None:
            return Pending("the pod has not been read yet")
        if self.excess:
            found = self._rules.expected + self.excess
            return Pending(f"{found} sidecars answer, but --sidecars is {self._rules.expected}")
        missing = [slot for slot in self.slots if not self._is_answered(slot, question)]
        if missing and not self._may_leave_out(missing, question):
            return Pending(self._reason(missing, question))
        if question.is_gated and self._has_unknown(row.namespace):
            return Pending("waiting for answers about running pods of the namespace")
        matched = [
            (slot, amounts)
            for slot in self.slots
            if slot not in missing and (amounts := question.answers[slot.index].amounts) is not None
        ]
        if not matched:
            return None
        names = ", ".join(slot.name or "a former sidecar" for slot, _ in matched)
        nothing: ResourceList = NOTHING
        total = reduce(add, (amounts for _, amounts in matched), nothing)
        return Counted(total, f"answer of {names}")

    def _find(self, row: PodRow) -> Question | None:
        body = fact_of(row, PodBody)
        if body is None:
            return None
        space = self._namespaces.get(row.namespace)
        known = None if space is None else space.questions.get(row.name)
        if known is not None and known.body == body:
            return known
        trial = self._trials.get(body)
        if trial is None:
            self._trials_bytes += len(body.packed)
            while self._trials and (
                len(self._trials) >= TRIALS_MAX or self._trials_bytes > TRIALS_BYTES_MAX
            ):
                oldest = self._take_trial(next(iter(self._trials)))
                assert oldest is not None, "it is one of them"
                for slot in self.slots:
                    slot.forget(oldest)
            trial = self._trials[body] = Question(row, body)
            self._ask(trial)
        return trial

    def _take_trial(self, body: PodBody) -> Question | None:
        trial = self._trials.pop(body, None)
        if trial is not None:
            self._trials_bytes -= len(body.packed)
        return trial

    def _has_unknown(self, namespace: str) -> bool:
        space = self._namespaces.get(namespace)
        return space is not None and bool(space.unknown)

    def _is_answered(self, slot: Slot, question: Question) -> bool:
        """Whether the slot's answer can be used.

        While no sidecar is connected, only "this pod is not mine" of the former one holds:
        the pods that it counted wait.
        """
        answer = question.answers.get(slot.index)
        if answer is None or answer.epoch != slot.epoch:
            return False
        return bool(slot.name) or answer.amounts is None

    def _may_leave_out(self, missing: list[Slot], question: Question) -> bool:
        return self._rules.falls_back and all(self._has_failed(each, question) for each in missing)

    def _has_failed(self, slot: Slot, question: Question) -> bool:
        """Whether the sidecar failed at this very pod.

        Failures at other pods do not count: one of them may be made to fail by its owner.
        """
        return slot.index in question.failures if slot.name else self.is_settled

    def _reason(self, missing: list[Slot], question: Question) -> str:
        absent = sum(not slot.name for slot in missing)
        if absent:
            expected = self._rules.expected
            connected = sum(bool(slot.name) for slot in self.slots)
            return f"{connected} of {expected} sidecars are connected"
        for slot in missing:
            failure = question.failures.get(slot.index) or slot.problem
            if failure:
                return f"{slot.name}: {failure}"
        return f"waiting for the answer of {missing[0].name}"

    # ------------------------------------------------------------------ sidecars come and go

    def connect(self, name: str) -> Slot | None:
        """A sidecar was found; None if all expected ones are connected. All pods are asked for."""
        slot = next((each for each in self.slots if not each.name), None)
        if slot is None:
            return None
        slot.name, slot.problem = name, ""
        slot.epoch += 1
        for question in (*self._stored(), *self._trials.values()):
            question.failures.pop(slot.index, None)
            if question.is_open:
                slot.due.put(question)
        self.on_due()
        return slot

    def disconnect(self, slot: Slot) -> None:
        slot.name = slot.problem = ""
        slot.clear()

    def pods(self) -> list[PodKey]:
        """Every pod whose count may change if a sidecar comes, goes or fails."""
        return [_key(question.row) for question in self._stored() if question.is_open]

    def unanswered(self, slot: Slot) -> list[PodKey]:
        """Pods that wait for an answer of this sidecar."""
        return [
            _key(question.row)
            for question in self._stored()
            if question.is_open and not self._is_answered(slot, question)
        ]

    def count_held(self) -> int:
        """Pods that wait for an answer of a sidecar."""
        return sum(isinstance(self.count(q.row), Pending) for q in self._stored() if q.is_open)

    def count_left_out(self) -> int:
        """Pods that are counted without a sidecar that failed."""
        return sum(1 for _ in self._left_out())

    def left_out(self) -> dict[str, str]:
        """By namespace: one reason why pods of it are counted without a sidecar."""
        found: dict[str, str] = {}
        for question, missing in self._left_out():
            if question.row.namespace not in found:
                found[question.row.namespace] = self._reason(missing, question)
        return found

    def _left_out(self) -> Iterator[tuple[Question, list[Slot]]]:
        if not self._rules.falls_back or self.excess:
            return
        for question in self._stored():
            if question.is_open:
                missing = [each for each in self.slots if not self._is_answered(each, question)]
                if missing and self._may_leave_out(missing, question):
                    yield question, missing

    def _stored(self) -> Iterator[Question]:
        for space in self._namespaces.values():
            yield from space.questions.values()

    # ------------------------------------------------------------------ asking

    def next_question(
        self, slot: Slot, now_ms: int, *, may_sweep: bool = True
    ) -> tuple[Question, bool] | None:
        """The next question for the sidecar, and whether it is one of a sweep."""
        while slot.retries and slot.retries[0].due_ms <= now_ms:
            question = heappop(slot.retries).question
            if question in slot.tries:
                slot.due.put(question)
        question_or_none = slot.due.pop()
        if question_or_none is not None:
            return question_or_none, False
        stale = slot.stale.pop() if may_sweep else None
        return None if stale is None else (stale, True)

    def namespace_of(self, question: Question) -> tuple[int, Iterable[tuple[str, PodBody]]]:
        """The generation and the pods that the sidecar is shown with the question."""
        space = self._namespaces.get(question.row.namespace)
        if space is None:
            return 0, ()
        return space.generation, ((name, each.body) for name, each in space.questions.items())

    def answer(
        self, slot: Slot, question: Question, generation: int, amounts: ResourceList | None
    ) -> list[PodKey]:
        """The sidecar answered. Returns the pods that must be counted again."""
        before = question.answers.get(slot.index)
        was_answered = self._is_answered(slot, question)
        question.answers[slot.index] = SidecarAnswer(slot.epoch, generation, amounts)
        question.failures.pop(slot.index, None)
        slot.tries.pop(question, None)
        slot.problem = ""
        if was_answered and before is not None and before.amounts == amounts:
            return []
        space = self._namespaces.get(question.row.namespace)
        if space is None or not self._is_current(question):
            return []
        space.sweep_changed |= was_answered
        question.is_known |= all(self._is_answered(each, question) for each in self.slots)
        freed = self._freed(space, question.row.name)
        return [_key(question.row), *map(_key, freed)]

    def fail(self, slot: Slot, question: Question, reason: str, now_ms: int) -> bool:
        """The question has no good answer; it is retried. Returns whether to count again."""
        if not self._is_current(question):
            return False
        tries = slot.tries.get(question, 0)
        slot.tries[question] = tries + 1
        self._order += 1
        due_ms = now_ms + min(RETRY_MS << min(tries, 16), RETRY_MS_MAX)
        heappush(slot.retries, _Retry(due_ms, self._order, question))
        before = question.failures.get(slot.index)
        question.failures[slot.index] = reason
        return before != reason and not self._is_answered(slot, question)

    def _is_current(self, question: Question) -> bool:
        """Whether the pod still has this content."""
        space = self._namespaces.get(question.row.namespace)
        if space is not None and space.questions.get(question.row.name) is question:
            return True
        return self._trials.get(question.body) is question

    # ------------------------------------------------------------------ answers that age

    def start_sweeps(self, now_ms: int) -> None:
        """Ask again for the pods of namespaces that changed, in the background.

        A sidecar may look at all pods of a namespace, so each change of a pod may change every
        answer there. Asking for all of them at once costs the square of the number of pods.
        One sweep covers all changes since the one before. The pause between sweeps is short
        while answers change, and grows while they do not.
        """
        if not self._rules.sees_namespace:
            return
        for space in list(self._unswept.values()):
            if space.is_sweeping:
                if not any(slot.stale.has(space.name) for slot in self.slots):
                    self._end_sweep(space, now_ms)
            elif space.next_sweep_ms <= now_ms:
                self._start_sweep(space)

    def _start_sweep(self, space: _Namespace) -> None:
        space.is_sweeping, space.sweep_changed = True, False
        space.swept_generation = space.generation
        for slot in self.slots:
            for question in space.questions.values():
                answer = question.answers.get(slot.index)
                if (
                    answer is not None
                    and answer.generation != space.generation
                    and self._is_answered(slot, question)
                    and slot.name
                    and question.is_open
                ):
                    slot.stale.put(question)
        self.on_due()

    def _end_sweep(self, space: _Namespace, now_ms: int) -> None:
        space.is_sweeping = False
        space.pause_ms = SWEEP_MS if space.sweep_changed else min(space.pause_ms * 2, SWEEP_MS_MAX)
        space.next_sweep_ms = now_ms + space.pause_ms
        if space.swept_generation == space.generation:
            del self._unswept[space.name]


def _key(row: PodRow) -> PodKey:
    return PodKey(row.namespace, row.name)
