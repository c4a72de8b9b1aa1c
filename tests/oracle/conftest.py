"""The oracle for a whole test run, its generated cases, and the closing count."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from assets import AssetError, ensure
from support.processes.oracle import Oracle
from support.seeds import IS_FIXED, SEED

IN_CI = os.environ.get("CI") == "true"
COMPARED: dict[str, int] = {}
COMPARED_IN_CI_MIN = 20_000


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    try:
        program = ensure("oracle")
    except AssetError as error:
        pytest.fail(f"the comparison with upstream could not be made: {error}", pytrace=False)
    running = Oracle(program)
    yield running
    COMPARED["all"] = running.compared
    running.close()


Check = Callable[[Any], None]


@pytest.fixture
def for_all() -> Callable[..., None]:
    """Run a check on generated examples.

    The examples of the fixed seed are the same in each run, and half of them are enough.
    """

    def run(strategy: st.SearchStrategy[Any], check: Check, *, examples: int) -> None:
        limits = settings(
            max_examples=-(-examples // (2 if IS_FIXED else 1)),
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )

        @hypothesis.seed(SEED)
        @limits
        @hypothesis.given(strategy)
        def property_(example: Any) -> None:
            check(example)

        property_()

    return run


@pytest.fixture
def agree(oracle: Oracle, for_all: Callable[..., None]) -> Callable[..., None]:
    """Ask the oracle about batches of generated cases, and compare each answer with ours:

        agree("names", names=NAMES, ours=our_view)

    `theirs` makes of an answer what `ours` makes of the case.
    """

    def run(
        op: str,
        *,
        ours: Callable[[Any], Any],
        theirs: Callable[[Any], Any] = lambda answer: answer,
        batch: tuple[int, int] = (20, 60),
        examples: int = 40,
        **question: st.SearchStrategy[Any],
    ) -> None:
        ((argument, cases),) = question.items()

        def check(asked: list[Any]) -> None:
            for case, answer in zip(asked, oracle.ask(op, **{argument: asked}), strict=True):
                oracle.assert_same(ours(case), theirs(answer), about=case)

        least, most = batch
        for_all(st.lists(cases, min_size=least, max_size=most), check, examples=examples)

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "for_all" in getattr(item, "fixturenames", ()):
            item.add_marker("seeded")


def pytest_collection_finish(session: pytest.Session) -> None:
    COMPARED["tests"] = sum(1 for item in session.items if item.get_closest_marker("oracle"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI too few comparisons are a failure: an early stop must not look green."""
    if not IN_CI or not COMPARED.get("tests"):
        return
    if COMPARED.get("all", 0) < COMPARED_IN_CI_MIN:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if "all" in COMPARED:
        terminalreporter.write_line(
            f"oracle: {COMPARED['all']} comparisons with upstream Kubernetes,"
            f" seed {SEED} (BURSAR_SEED={SEED} repeats it)"
        )
