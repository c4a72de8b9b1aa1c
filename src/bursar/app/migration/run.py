"""Run a move: carry out the next step, wait until the cluster shows that it is done, and so on.

Before each step the state is read again. So a move that was interrupted goes on where it was, and
a step that another program has undone is carried out again.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.ports import BusyError, Clock, ConflictError, ReadWriter, UnavailableError
from bursar.app.migration.effects import perform
from bursar.app.migration.gather import read_state
from bursar.app.migration.installation import Installation
from bursar.app.migration.plan import Planned, Step, pending, takeover, way_back
from bursar.app.migration.state import State

POLL_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 3.0
"""API servers learn of changed policies and webhooks with a delay of about a second."""
ATTEMPTS_MAX: Final = 5
"""How often one step is carried out. If it is still undone, another program undoes it."""
SETTLING: Final = frozenset(
    {Step.GUARD, Step.SHARE_GATE, Step.START, Step.REMOVE_WEBHOOKS, Step.REMOVE_GATE, Step.VERIFY}
)
"""Steps after which the state must stay the same for `SETTLE_SECONDS` before the next."""


class MoveError(Exception):
    """A move that cannot go on. The message says at which step, and what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One direction of a move on one cluster."""

    cluster: ReadWriter
    clock: Clock
    home: str
    installation: Installation
    is_back: bool = False
    timeout_seconds: float = 600
    """How long to wait for one step."""
    on_step: Callable[[Step, str], None] = lambda _step, _text: None
    """Called when a step begins, when it is done, and when what it waits for changes."""
    on_error: Callable[[str], None] = lambda _text: None
    """Called when a request fails that may succeed later, before the next attempt."""

    async def run(self) -> int:
        """Run all steps that are not done, and return their number. Raises `MoveError`.

        If the API server does not answer, or an object has changed since it was read, the step is
        tried again. Other errors of the cluster are raised as `ClusterError`. The command can be
        run again after every error.
        """
        attempts = Counter[Step]()
        failing_since: float | None = None
        while True:
            try:
                step = await self._next(attempts)
            except (BusyError, ConflictError, UnavailableError) as error:
                now = self.clock.monotonic()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since >= self.timeout_seconds:
                    raise
                self.on_error(str(error))
                await self.clock.sleep(POLL_SECONDS)
                continue
            failing_since = None
            if step is None:
                return len(attempts)
            attempts[step] += 1

    async def _next(self, attempts: Mapping[Step, int]) -> Step | None:
        """Carry out the next step; None if all are done."""
        state = await self._read()
        planned = pending(self._plan(state))
        if planned is None:
            return None
        step = planned.step
        if attempts[step] >= ATTEMPTS_MAX:
            raise MoveError(
                f"step {step.value} was carried out {ATTEMPTS_MAX} times and is undone again: "
                "another program works against it"
            )
        self.on_step(step, "begins")
        await perform(step, self.cluster, state)
        if await self._await(step):
            self.on_step(step, "done")
        return step

    async def _await(self, step: Step) -> bool:
        """Whether the step is done; false if an earlier step is undone meanwhile."""
        deadline = self.clock.monotonic() + self.timeout_seconds
        done_since: float | None = None
        said = ""
        while True:
            plan = self._plan(await self._read())
            planned = _found(step, plan)
            now = self.clock.monotonic()
            if _is_undone_before(step, plan):
                self.on_step(step, "stops, because an earlier step was undone")
                return False
            if planned.is_done:
                done_since = now if done_since is None else done_since
                if step not in SETTLING or now - done_since >= SETTLE_SECONDS:
                    return True
            else:
                done_since = None
                if planned.waits_for != said:
                    said = planned.waits_for
                    self.on_step(step, f"waits for {said}" if said else "begins again")
                if now >= deadline:
                    missing = said or "the cluster to show the change"
                    raise MoveError(
                        f"step {step.value} waited {self.timeout_seconds:g} s for {missing}; "
                        "solve this, and run the command again"
                    )
            await self.clock.sleep(POLL_SECONDS)

    def _plan(self, state: State) -> tuple[Planned, ...]:
        return way_back(state) if self.is_back else takeover(state)

    async def _read(self) -> State:
        return await read_state(self.cluster, self.home, self.installation, is_back=self.is_back)


def _found(step: Step, plan: tuple[Planned, ...]) -> Planned:
    """The step in the plan. A step that is no longer planned is not needed."""
    return next((each for each in plan if each.step is step), Planned(step, is_done=True))


def _is_undone_before(step: Step, plan: tuple[Planned, ...]) -> bool:
    """Whether a step before this one is not done."""
    earlier = pending(plan)
    if earlier is None or earlier.step is step:
        return False
    steps = [each.step for each in plan]
    return step in steps and steps.index(earlier.step) < steps.index(step)
