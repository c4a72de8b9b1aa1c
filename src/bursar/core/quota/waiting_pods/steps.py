"""Changes that concern many pods: entered in steps, so that each call takes little time."""

from collections.abc import Callable, Hashable, Iterator
from typing import Final

STEPS_AT_ONCE: Final = 256
"""How many pods are entered at once after a change that concerns many."""
OWN_STEPS_AT_ONCE: Final = 16
"""The same after a change of a quota of one namespace: a tenant decides how often it changes."""
TURN_STEPS: Final = 1024
"""Steps of one namespace before it is the turn of the next: few have more waiting pods."""


class StepQueue:
    """Changes in order, each as an iterator that does one step at a time."""

    def __init__(self) -> None:
        self._changes: Final[dict[Hashable, Iterator[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._changes)

    def put(self, key: Hashable, steps: Iterator[None]) -> None:
        """Add a change. It replaces an unfinished change with the same key."""
        self._changes.pop(key, None)
        self._changes[key] = steps

    def run(self, steps_max: int) -> int:
        """Do this many steps. Returns how many are left over; 0 if there may be more to do."""
        left = steps_max
        while self._changes and left:
            key, steps = next(iter(self._changes.items()))
            for _ in steps:
                left -= 1
                if not left:
                    break
            else:
                del self._changes[key]
        return left


class Changes:
    """All unfinished changes.

    Most concern accounts that namespaces share. A change of a quota of one namespace does not, so
    it *pauses* its namespace: only its own pods have to wait until it is entered. Namespaces take
    turns of some steps, so no namespace waits for one that has very many pods, or whose quotas
    change all the time.
    """

    def __init__(self, pause: Callable[[str], None], resume: Callable[[str], None]) -> None:
        """`resume` is called with a paused namespace when all its changes are entered."""
        self.steps_at_once, self.own_steps_at_once = STEPS_AT_ONCE, OWN_STEPS_AT_ONCE
        self.turn_steps = TURN_STEPS
        self._shared: Final = StepQueue()
        self._own: Final[dict[str, StepQueue]] = {}
        """By namespace."""
        self._turn_left = self.turn_steps
        """Steps until it is the turn of the second namespace."""
        self._pause, self._resume = pause, resume

    def __bool__(self) -> bool:
        return bool(self._shared or self._own)

    def concern(self, namespace: str) -> bool:
        """Whether accounts that the pods of a namespace use are not right yet."""
        return bool(self._shared) or namespace in self._own

    def put(
        self, what: str, namespace: str, steps: Iterator[None], *, is_own: bool = False
    ) -> None:
        """Add a change for the pods of a namespace. It replaces an unfinished one of its sort.

        It is the namespace's own if it concerns no account that others use.
        """
        if not is_own:
            self._shared.put((what, namespace), steps)
            return
        changes = self._own.pop(namespace, None) or StepQueue()
        changes.put(what, steps)
        self._own[namespace] = changes
        self._pause(namespace)

    def put_others(self, steps: Iterator[None]) -> None:
        """Add a change for any pods."""
        self._shared.put(object(), steps)

    def run_some(self, *, is_own: bool = False) -> None:
        """Do the steps that are done at once after a change; `is_own` as in `put`."""
        left = self.own_steps_at_once if is_own else self.steps_at_once
        self._run_own(self._shared.run(left))

    def run_fairly(self, steps_max: int) -> int:
        """Do this many steps, and at most half of them for changes of single namespaces.

        Otherwise a tenant that changes its quotas all the time would leave no step to decide about
        the pods of others.
        """
        left = self._shared.run(steps_max)
        return left // 2 + self._run_own(left - left // 2)

    def _run_own(self, steps_max: int) -> int:
        left = steps_max
        while self._own and left:
            namespace, changes = next(iter(self._own.items()))
            turn = min(left, self._turn_left)
            done = turn - changes.run(turn)
            left -= done
            self._turn_left -= done
            if changes and self._turn_left:
                continue
            self._turn_left = self.turn_steps
            del self._own[namespace]
            if changes:
                self._own[namespace] = changes
            else:
                self._resume(namespace)
        return left
