"""The terminal application of `bursar up`, on screens of six sizes and contents."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC
from functools import cache
from pathlib import Path

import pytest

from bursar.app.reports.overview import Overview
from bursar.cli.up.application import TextScreen, UpApp
from bursar.cli.up.rows_pane import RowsPane
from bursar.cli.up.tables import Pane
from support.builders.up_overviews import cluster_of

GOLDEN = Path(__file__).parents[1] / "golden" / "up"
SIZES = ((80, 24), (120, 40), (200, 60))
TITLE = "bursar up: embedded cluster"


@cache
def cluster(pods: int) -> Overview:
    return cluster_of(pods)


def an_app(overview: Overview | None, is_ending: Callable[[], bool] = lambda: False) -> UpApp:
    return UpApp(TITLE, lambda: overview, is_ending, UTC)


def shown(
    pods: int,
    size: tuple[int, int],
    *keys: str,
    check: Callable[[UpApp], Awaitable[None]] | None = None,
) -> str:
    """The screen after some keys."""

    async def run() -> str:
        app = an_app(cluster(pods))
        async with app.run_test(size=size) as pilot:
            await pilot.press(*keys)
            await app.workers.wait_for_complete()
            await pilot.pause()
            if check is not None:
                await check(app)
            return app.screen_text()

    return asyncio.run(run())


@pytest.mark.parametrize("pods", [5, 5000])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_screen_is_the_golden_one(pods, size):
    screen = shown(pods, size) + "\n"
    golden = GOLDEN / f"{size[0]}x{size[1]}-{pods}-pods.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(screen)

    assert screen == golden.read_text()


@pytest.mark.parametrize("pods", [5, 5000])
@pytest.mark.parametrize("size", [*SIZES, (60, 16), (40, 12)], ids=str)
def test_waiting_pods_are_always_visible(pods, size):
    screen = shown(pods, size)
    lines = screen.splitlines()

    assert len(lines) <= size[1]
    assert all(len(line) <= size[0] for line in lines)
    [head] = [index for index, line in enumerate(lines) if line.startswith("WAITING")]
    assert lines[head + 1].startswith("research/tr")


def pane(app: UpApp, which: Pane) -> RowsPane:
    return app.query_one(f"#{which.value.lower()}", RowsPane)


def rows_under(screen: str, title: str) -> list[str]:
    """The first words of the rows of a pane."""
    lines = iter(screen.splitlines())
    next(line for line in lines if line.startswith(title))
    found = []
    for line in lines:
        if not line or line.split()[0].isupper():
            break
        found.append(line.split()[0])
    return found


def test_a_filter_keeps_the_rows_that_contain_it_until_escape():
    filtered = shown(5000, (120, 40), "slash", *"yearly", "enter")

    assert "WAITING 1 of 4,500 /yearly" in filtered
    assert rows_under(filtered, "WAITING") == ["shop/yearly-report"]
    assert "WAITING 4,500" in shown(5000, (120, 40), "slash", *"yearly", "escape")


def test_a_filter_that_nothing_contains_says_so():
    assert "no row contains xyz" in shown(5, (80, 24), "slash", *"xyz", "enter")


def test_sorting_goes_through_the_columns_and_back():
    by_name = shown(5, (120, 40), "s", "r")
    by_position = shown(5, (120, 40), "s", "s")

    assert rows_under(by_name, "WAITING")[0] == "shop/yearly-report"
    assert "POS▼" in by_position
    assert rows_under(shown(5, (120, 40), "s", "s", "s", "s"), "WAITING")[0].endswith("0000")


def test_nodes_are_sorted_by_their_load():
    screen = shown(5000, (120, 40), "1", "s", "s", "s")

    assert "CPU▼" in screen
    assert rows_under(screen, "NODES")[-1] != "gpu"


def test_keys_move_through_thousands_of_rows():
    end = shown(5000, (80, 24), "end")
    moved = shown(5000, (80, 24), "down", "down", "pagedown", "up")

    assert rows_under(end, "WAITING")[-1] == "shop/yearly-report"
    assert "train-0008: position 9 in the queue, 8 ahead" in moved
    assert rows_under(shown(5000, (80, 24), "end", "home"), "WAITING")[0].endswith("0000")


def test_tab_goes_from_pane_to_pane_and_the_detail_follows():
    assert "Released: Pod research/train-0000" in shown(5, (80, 24), "tab")
    assert "cpu 0 of 7800m (0%)" in shown(5, (80, 24), "1")


def test_zoom_gives_one_pane_the_screen():
    screen = shown(5000, (80, 24), "z")

    assert len(rows_under(screen, "WAITING")) >= 14
    assert [line.split()[0] for line in screen.splitlines() if line[:6].isupper()] == [
        "NODES",
        "QUOTAS",
        "WAITING",
        "EVENTS",
    ]
    assert shown(5000, (80, 24), "z", "z") == shown(5000, (80, 24))


def test_enter_opens_the_whole_explanation_and_escape_closes_it():
    opened = shown(5, (120, 40), "down", "enter")

    assert "Pod:       research/train-0001" in opened
    assert "limited: requests.nvidia.com/gpu=2; missing: requests.nvidia.com/gpu=1" in " ".join(
        opened.split()
    )
    assert "Released before it, of the pods that need the same quota: 1" in opened
    assert "  research/train-0000" in opened
    assert shown(5, (120, 40), "enter", "escape") == shown(5, (120, 40))


def test_a_pod_that_no_node_takes_is_explained_node_by_node():
    opened = shown(5, (120, 40), "end", "enter")

    assert "node-1: Insufficient cpu; 4200m cpu missing of 12" in opened
    assert "To let it run, do one of these:" in opened


def test_nodes_quotas_and_events_are_explained():
    node = shown(5, (120, 40), "1", "enter")
    quota = shown(5, (120, 40), "2", "enter")
    event = shown(5, (120, 40), "4", "enter")

    assert "  nvidia.com/gpu     0 of 4, 0%" in node
    assert "requests.nvidia.com/gpu  2 of 2, 100%  exhausted" in quota
    assert "  1  research/train-0000" in quota
    assert "Normal  Released" in event


def test_a_long_explanation_scrolls():
    top, moved = shown(5000, (60, 12), "2", "enter"), shown(5000, (60, 12), "2", "enter", "end")

    assert "Quota:     research/gpus" in top
    assert "Quota:     research/gpus" not in moved
    assert "and 4,299 more" in moved


def test_a_click_on_a_row_opens_it_and_a_click_on_a_title_sorts():
    async def run() -> tuple[str, str]:
        app = an_app(cluster(5))
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.click("#quotas", offset=(3, 0))
            await pilot.pause()
            sorted_screen = app.screen_text()
            await pilot.click("#waiting", offset=(3, 2))
            await app.workers.wait_for_complete()
            await pilot.pause()
            return sorted_screen, app.screen_text()

    sorted_screen, opened = asyncio.run(run())

    assert "QUOTAS 4▲" in sorted_screen
    assert "Pod:       research/train-0001" in opened


def test_help_lists_the_keys():
    async def is_help(app: UpApp) -> None:
        assert isinstance(app.screen, TextScreen)

    screen = shown(5, (80, 24), "question_mark", check=is_help)

    assert "Tab, Shift-Tab" in screen
    assert shown(5, (80, 24), "question_mark", "q") == shown(5, (80, 24))


@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["enter", "ctrl+c"], ["slash", "ctrl+c"]])
def test_the_last_frame_is_kept_as_text(keys):
    async def run() -> UpApp:
        app = an_app(cluster(5))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(*keys)
        return app

    app = asyncio.run(run())

    assert app.return_code == 0
    assert app.last_frame.startswith(
        f"{TITLE}   Pods: 3 gated, 1 waiting, 1 running\nFull: research/gpus"
    )
    assert "research/train-0002    3  exceeded quota" in app.last_frame


def test_it_ends_with_the_cluster():
    is_over = False

    async def run() -> UpApp:
        nonlocal is_over
        app = an_app(cluster(5), lambda: is_over)
        async with app.run_test(size=(80, 24)) as pilot:
            is_over = True
            while not app.last_frame:
                await pilot.pause(0.05)
        return app

    assert asyncio.run(run()).last_frame.startswith(TITLE)


def test_a_newer_state_replaces_the_rows_and_the_cursor_stays_on_its_row():
    states = [cluster(5), cluster_of(20)]

    async def run() -> tuple[str, str]:
        app = UpApp(TITLE, lambda: states[0], zone=UTC)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("down", "down")
            before = app.screen_text()
            del states[0]
            while "WAITING 18" not in app.screen_text():
                await pilot.pause(0.05)
            return before, app.screen_text()

    before, after = asyncio.run(run())

    assert "train-0002: position 3" in before
    assert "train-0002: position 3" in after


def test_text_from_the_cluster_cannot_move_the_cursor():
    seen = cluster(5)
    hostile = replace(seen.waiting[0], reason="a\x1b[2Jb\nc")

    async def run() -> str:
        app = an_app(replace(seen, waiting=(hostile,)))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("enter")
            await app.workers.wait_for_complete()
            await pilot.pause()
            return app.screen_text()

    assert r"a\x1b[2Jb\nc" in asyncio.run(run())
