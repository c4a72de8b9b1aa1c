"""The log of a process: what a line looks like, and how often a warning is repeated."""

import io
import json
import logging
from itertools import pairwise

import pytest

from bursar.app.log import ROOT, Log
from bursar.cli.processes.telemetry.log_options import LogFormat, LogLevel, LogSettings
from bursar.entry.lifetime.log_output import (
    FIRST_PAUSE_SECONDS,
    KINDS_MAX,
    PAUSE_SECONDS_MAX,
    RepeatLimit,
    start_log,
    warnings_as_text,
)


@pytest.fixture(autouse=True)
def _same_logger_afterwards():
    logger = logging.getLogger(ROOT)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_warning(message, at, **fields):
    record = logging.LogRecord("bursar.informer", logging.WARNING, "", 0, message, None, None)
    record.created, record.fields = at, fields
    return record


def test_a_line_that_no_terminal_reads_is_one_json_object():
    stream = io.StringIO()
    start_log(LogSettings(), stream)
    Log("controller").info("started", version="1.0", count=3, error=OSError('no "route"\n'))
    line = json.loads(stream.getvalue())

    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "component": "controller",
        "message": "started",
        "version": "1.0",
        "count": 3,
        "error": 'no "route"\n',
    }


def test_a_command_logs_warnings_as_text_while_it_runs(capsys):
    log = Log("informer")
    with warnings_as_text():
        log.info("synced")
        log.warning("an object cannot be decoded", resource="pods")
    log.warning("after the command")

    line = capsys.readouterr().err
    assert line.endswith(" WARNING informer: an object cannot be decoded resource=pods\n")


def test_on_a_terminal_it_is_text_and_nothing_in_it_is_obeyed():
    stream = Terminal()
    start_log(LogSettings(), stream)
    Log("agent").warning("cannot read", path="/a b", error="\x1b[31mred\x1b[0m")
    line = stream.getvalue()

    assert line.endswith(
        ' WARNING agent: cannot read path="/a b" error="\\u001b[31mred\\u001b[0m"\n'
    )


def test_the_format_can_be_chosen():
    stream = Terminal()
    start_log(LogSettings(format=LogFormat.JSON), stream)
    Log("agent").info("ended")

    assert json.loads(stream.getvalue())["message"] == "ended"


def test_lines_below_the_level_are_left_out():
    stream = io.StringIO()
    start_log(LogSettings(level=LogLevel.WARNING), stream)
    Log("agent").info("listening")
    Log("agent").error("cannot listen")

    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [
        "cannot listen"
    ]


def test_a_value_without_end_is_cut():
    stream = io.StringIO()
    start_log(LogSettings(), stream)
    Log("agent").info("read", text="x" * 100_000)

    assert len(stream.getvalue()) < 1300


def test_a_traceback_is_a_field():
    stream = io.StringIO()
    start_log(LogSettings(), stream)
    try:
        {}["pods"]
    except KeyError:
        logging.getLogger("bursar.loop").exception("broken")
    line = json.loads(stream.getvalue())

    assert line["message"] == "broken"
    assert "KeyError: 'pods'" in line["traceback"]


def test_a_warning_that_repeats_is_written_ever_more_rarely():
    limit = RepeatLimit()
    written = [
        at for at in range(2000) if limit.filter(a_warning("watch failed", at, resource="pods"))
    ]
    gaps = [later - earlier for earlier, later in pairwise(written)]

    assert written[0] == 0
    assert gaps[:4] == [FIRST_PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert set(gaps[6:]) == {PAUSE_SECONDS_MAX}


def test_the_line_after_a_pause_tells_how_many_were_left_out():
    limit = RepeatLimit()
    for at in range(10):
        limit.filter(a_warning("watch failed", at))
    record = a_warning("watch failed", 10)

    assert limit.filter(record)
    assert record.fields["repeated"] == 9


def test_other_warnings_and_other_resources_are_kinds_of_their_own():
    limit = RepeatLimit()

    assert limit.filter(a_warning("watch failed", 0, resource="pods", error="a"))
    assert limit.filter(a_warning("watch failed", 0, resource="nodes", error="a"))
    assert limit.filter(a_warning("list failed", 0, resource="pods", error="a"))
    assert not limit.filter(a_warning("watch failed", 1, resource="pods", error="b"))


def test_another_class_of_error_is_a_kind_of_its_own():
    """A right that is missing is seen at once, though the API server was down before."""
    limit = RepeatLimit()

    assert limit.filter(a_warning("watch failed", 0, error=OSError("refused")))
    assert not limit.filter(a_warning("watch failed", 1, error=OSError("reset")))
    assert limit.filter(a_warning("watch failed", 2, error=PermissionError("pods")))


def test_each_sidecar_that_fails_is_written_at_once():
    limit = RepeatLimit()

    assert limit.filter(a_warning("no answer", 0, socket="a.sock", failure="timeout"))
    assert not limit.filter(a_warning("no answer", 1, socket="a.sock", failure="timeout"))
    assert limit.filter(a_warning("no answer", 2, socket="b.sock", failure="timeout"))
    assert limit.filter(a_warning("no answer", 3, socket="a.sock", failure="malformed"))


def test_after_a_long_quiet_time_a_warning_is_new_again():
    limit = RepeatLimit()
    limit.filter(a_warning("watch failed", 0))

    assert limit.filter(a_warning("watch failed", 100))
    assert not limit.filter(a_warning("watch failed", 101))


def test_information_is_never_left_out():
    limit = RepeatLimit()
    record = a_warning("leading", 0)
    record.levelno = logging.INFO

    assert all(limit.filter(record) for _ in range(3))


def test_kinds_without_end_take_no_memory_without_end():
    limit = RepeatLimit()
    for number in range(3 * KINDS_MAX):
        limit.filter(a_warning(f"problem {number}", 0))

    assert len(limit._kinds) == KINDS_MAX
