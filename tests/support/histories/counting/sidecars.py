"""Sidecars in a history: what they say of pods, and questions that are answered late or not."""

import json
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.sidecar_questions import Question
from bursar.core.counting.sidecars import SidecarCounter, SidecarRules, Slot
from bursar.core.model.resources import ResourceList
from bursar.core.quota.ledger import PodKey
from bursar.wire.counting.pod_body import keep_body
from support.builders.pods import parsed

SEATS, GROUP = "seats/app", "group/app"
"""What the first and the second sidecar charge, by the annotations `seats` and `group`."""
NAMES = ("first", "second")


class Asked(NamedTuple):
    """A question that a sidecar has not answered yet, with what it was shown."""

    slot: Slot
    question: Question
    generation: int
    pods: tuple[tuple[str, PodBody], ...]


def annotation(body: PodBody, name: str) -> str:
    annotations = json.loads(body.json())["metadata"].get("annotations", {})
    found: str = annotations.get(name, "")
    return found


def said(slot: Slot, name: str, pods: Iterable[tuple[str, PodBody]]) -> ResourceList | None:
    """What a sidecar says of a pod: seats by its annotation; of a group only the first pays."""
    bodies = dict(pods)
    kind = (SEATS, GROUP)[slot.name != "first"]
    own = annotation(bodies[name], kind.partition("/")[0])
    if not own:
        return None
    if kind == SEATS:
        return parsed(f"{SEATS}={own}")
    payer = min(each for each, body in bodies.items() if annotation(body, "group"))
    return parsed(f"{GROUP}={own if name == payer else 0}")


class Sidecars:
    """Some sidecars, which may end and come back."""

    def __init__(self, random: Random, expected: int) -> None:
        self.random, self.names = random, NAMES[:expected]
        self.counter = SidecarCounter(SidecarRules(expected=expected), keep_body)
        self.asked: list[Asked] = []
        self._states: dict[int, object] = {}
        """By generation: the namespace and its pods. Encoded pods are kept by generation."""
        for name in self.names:
            self.counter.connect(name)

    @property
    def is_idle(self) -> bool:
        """Whether nothing will be asked any more."""
        return not self.counter._unswept and not any(slot.tries for slot in self.counter.slots)

    def connect(self) -> list[PodKey]:
        for name in sorted({*self.names} - {slot.name for slot in self.counter.slots}):
            self.counter.connect(name)
        return self.counter.pods()

    def disconnect(self) -> list[PodKey]:
        for slot in self.random.sample(self.counter.slots, min(1, len(self.names))):
            self.counter.disconnect(slot)
            self.asked = [each for each in self.asked if each.slot is not slot]
        return self.counter.pods()

    def ask(self, now_ms: int) -> bool:
        """Send one question. Returns whether there is one."""
        self.counter.start_sweeps(now_ms)
        for slot in self.random.sample(self.counter.slots, len(self.names)):
            found = self.counter.next_question(slot, now_ms) if slot.name else None
            if found is not None:
                question, _ = found
                generation, pods = self.counter.namespace_of(question)
                shown = tuple(pods)
                self._check_state(question.row.namespace, generation, shown)
                self.asked.append(Asked(slot, question, generation, shown))
                return True
        return False

    def _check_state(self, namespace: str, generation: int, pods: object) -> None:
        """No two states of namespaces have the same number."""
        if generation:
            state = (namespace, pods)
            assert self._states.setdefault(generation, state) == state, generation

    def answer(self, now_ms: int, *, fails: bool = False) -> list[PodKey]:
        """Answer one of the questions. Returns the pods to count again."""
        if not self.asked:
            return []
        slot, question, generation, pods = self.asked.pop(self.random.randrange(len(self.asked)))
        row = question.row
        if fails:
            is_news = self.counter.fail(slot, question, "no good answer", now_ms)
            return [PodKey(row.namespace, row.name)] if is_news else []
        shown = {**dict(pods), row.name: question.body}
        amounts = said(slot, row.name, shown.items())
        return self.counter.answer(slot, question, generation, amounts)
