"""The oracle for a whole test run, its two seeds, and the closing count."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from oracle import OracleUnavailableError, ensure_built
from oracle_dialogue import Oracle

FIXED_SEED = 20_260_417
FRESH_SEED = int(os.environ.get("BURSAR_SEED") or int.from_bytes(os.urandom(4), "big"))

COMPARED: dict[str, int] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    try:
        program = ensure_built()
    except OracleUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"upstream comparison is required in CI: {error}", pytrace=False)
        pytest.skip(f"upstream comparison not made: {error}")
    running = Oracle(program)
    yield running
    COMPARED["all"] = running.compared
    running.close()


Check = Callable[[Any], None]


@pytest.fixture(params=["fixed", "fresh"])
def for_all(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a check on generated examples, once from the fixed seed and once from a fresh one."""
    seed = FIXED_SEED if request.param == "fixed" else FRESH_SEED

    def run(strategy: st.SearchStrategy[Any], check: Check, *, examples: int) -> None:
        limits = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )

        @hypothesis.seed(seed)
        @limits
        @hypothesis.given(strategy)
        def property_(example: Any) -> None:
            check(example)

        property_()

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if "all" in COMPARED:
        terminalreporter.write_line(
            f"oracle: {COMPARED['all']} comparisons with upstream Kubernetes,"
            f" fixed seed {FIXED_SEED}, fresh seed {FRESH_SEED}"
            f" (BURSAR_SEED={FRESH_SEED} repeats it)"
        )
