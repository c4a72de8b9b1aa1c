"""`bursar up`: show the embedded cluster or a real one until told to end."""

import asyncio
import io
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.ports import ClusterError, UnavailableError
from bursar.app.reports.overview import EventLine, Overview
from bursar.app.reports.story import Story
from bursar.cli.errors.cluster import cluster_error_text
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.cli.processes.options.process import ClusterChoice
from bursar.cli.processes.up import UpSettings
from bursar.cli.up.start_line import clear_progress_line, show_progress_line
from bursar.entry.lifetime.log_output import warnings_as_text
from bursar.entry.process import cluster_access
from bursar.entry.up.embedded_cluster import embedded_cluster
from bursar.entry.up.watched_cluster import ShownCluster, WatchedCluster

if TYPE_CHECKING:
    from bursar.cli.up.stop import Stop

REFRESH_SECONDS: Final = 0.25
REST_FACTOR: Final = 4
"""Between two states, the cluster is left alone this many times as long as a state took."""
SYNC_SECONDS_MAX: Final = 30
REACH_SECONDS: Final = 2.0
"""How long the API server may take for its first answer."""

Show = Callable[[Overview], None]


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run, until SIGTERM, SIGINT, `stop` or the end of the given time."""

    opening: AbstractAsyncContextManager[ShownCluster]
    story: Story
    seconds: float | None
    show: Show
    stop: "Stop | None"
    can_be_late: bool
    """Whether the cluster may not have answered when the time is over."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    began: bool = False
    cause: ClusterError | None = None

    async def __call__(self) -> Overview:
        self._listen()
        work = asyncio.create_task(self._follow())
        ended = asyncio.create_task(self.ended.wait())
        try:
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self.can_be_late and not work.done() and not self.began:
                why = f": {self.cause}" if self.cause else ""
                raise BadInputError(f"the cluster was not read before the end{why}")
            return await work
        finally:
            for task in (work, ended):
                task.cancel()
            await asyncio.gather(work, ended, return_exceptions=True)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self.stop is not None:
            self.stop.on_set(lambda: _call_soon(loop, self.ended.set))
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.ended.set)
        if self.seconds is not None:
            loop.call_later(self.seconds, self.ended.set)

    async def _follow(self) -> Overview:
        try:
            return await self._follow_shown()
        finally:
            if not self.began:
                clear_progress_line()

    async def _follow_shown(self) -> Overview:
        """Show the cluster again and again; return its last state."""
        async with self.opening as shown:
            show_progress_line(
                "waiting for the controller" if shown.view else "reading the cluster"
            )
            watched = WatchedCluster(shown, self.story)
            async with watched.running():
                await self._wait_for(watched)
                clear_progress_line()
                last: Overview | None = None
                while not self.ended.is_set():
                    began = SYSTEM_CLOCK.monotonic()
                    seen = watched.overview()
                    if seen != last:
                        last = seen
                        self.show(seen)
                    took = SYSTEM_CLOCK.monotonic() - began
                    with suppress(TimeoutError):
                        rest = max(REFRESH_SECONDS, took * REST_FACTOR)
                        await asyncio.wait_for(self.ended.wait(), rest)
                return watched.overview()

    async def _wait_for(self, watched: WatchedCluster) -> None:
        # The embedded cluster always answers, but takes long to list very many pods.
        most = SYNC_SECONDS_MAX if self.can_be_late else None
        try:
            async with asyncio.timeout(most):
                await watched.wait_synced()
        except TimeoutError:
            cause = watched.last_error or "no answer"
            raise BadInputError(f"the cluster could not be read: {cause}") from None
        self.began = True


def run_up(settings: UpSettings, show: Show, stop: "Stop | None" = None) -> Overview:
    """Show the cluster until told to end; return its last state.

    Raises `BadInputError` and `ClusterError`.
    """
    choice = settings.cluster
    opening = (
        _real_cluster(choice)
        if choice.is_named
        else embedded_cluster(
            settings.files, settings.seed, settings.state, counting=settings.counting
        )
    )
    story = Story(tells_all=not choice.is_named)
    run = _Run(
        opening=opening,
        story=story,
        seconds=settings.seconds,
        show=show,
        stop=stop,
        can_be_late=choice.is_named,
    )
    # Lines on standard error would damage the screen, so the terminal application shows events.
    with warnings_as_text(None if stop is None else _StoryStream(story)):
        return asyncio.run(run())


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)


class _StoryStream(io.StringIO):
    """Turns lines of the log into events."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def write(self, text: str) -> int:
        if text.strip():
            now = SYSTEM_CLOCK.now()
            self._story.add(
                EventLine(
                    time=now,
                    namespace="",
                    kind="Process",
                    name="bursar up",
                    reason="Warning",
                    note=text.strip(),
                    is_warning=True,
                )
            )
        return len(text)


# ------------------------------------------------------------------ a real cluster


@asynccontextmanager
async def _real_cluster(choice: ClusterChoice) -> AsyncIterator[ShownCluster]:
    """The cluster of a kubeconfig, to be looked at. Raises `BadInputError`."""
    access = cluster_access(choice)
    await _require_answer(access)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield ShownCluster(client)


async def _require_answer(access: ClusterAccess) -> None:
    """Ask the API server for its version, once. Any answer is good enough."""
    # Credentials come first: a program that fetches them may ask its user something.
    await access.credentials.headers()
    limits = replace(Limits(), attempts_max=1, connect_seconds=REACH_SECONDS)
    place = printable(f"{access.server} (context {access.context})")
    try:
        async with (
            asyncio.timeout(REACH_SECONDS),
            KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom(), limits=limits) as client,
        ):
            await client.version()
    except TimeoutError:
        raise BadInputError(
            f"{place}: no answer within {REACH_SECONDS:g} s; name another cluster with "
            "--kubeconfig or --context"
        ) from None
    except UnavailableError as error:
        raise BadInputError(printable(cluster_error_text(place, error))) from None
    except ClusterError:
        return
