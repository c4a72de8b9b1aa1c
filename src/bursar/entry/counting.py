"""Which counters a controller or a view has, by its settings."""

from bursar.app.counting.feeds import Counting, CountingPart
from bursar.app.counting.settings import CountingSettings


def open_counting(settings: CountingSettings) -> Counting:  # noqa: ARG001 - none yet
    """Counters that know nothing yet. Each term of a controller has its own."""
    parts: list[CountingPart] = []
    return Counting.of(parts)
