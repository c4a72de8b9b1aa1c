"""Single fields: quantities, times, texts, and how foreign text is shown."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.quantity import FORMAT_ERROR, Quantity
from bursar.wire.structs.fields import (
    FieldError,
    decode_quantity,
    decode_resources,
    decode_texts,
    decode_time,
    field_text,
    number_text,
    printable,
    quoted,
    timestamp,
)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("1.500", "1.500"),
        (" 1Gi\u2003", "1Gi"),
        (None, "0"),
        (3, "3"),
        (0.5, "500m"),
        (1e21, "1e+21"),
        (-0.0, "0"),
    ],
)
def test_quantities_are_strings_numbers_or_null(raw, text):
    assert str(decode_quantity(raw, "cpu")) == text


def test_a_bad_quantity_carries_upstreams_words_and_what_was_found():
    with pytest.raises(FieldError) as caught:
        decode_resources({"cpu": "1 Gi"}, "spec.overhead")

    assert str(caught.value) == f"spec.overhead[cpu]: {FORMAT_ERROR}"
    assert caught.value.found == "1 Gi"


def test_a_boolean_is_no_quantity():
    with pytest.raises(FieldError, match=r"^cpu: a quantity is expected, not true$"):
        decode_quantity(True, "cpu")


def test_resource_lists_may_be_missing():
    assert decode_resources(None, "x") == decode_resources({}, "x") == {}
    assert decode_resources({"cpu": "1"}, "x") == {"cpu": Quantity.parse("1")}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (100.0, "100"),
        (-0.0, "-0"),
        (1e20, "100000000000000000000"),
        (1.5e20, "150000000000000000000"),
        (1e21, "1e+21"),
        (1e100, "1e+100"),
        (0.000001, "0.000001"),
        (1.25e-6, "0.00000125"),
        (-1e-6, "-0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
    ],
)
def test_floats_are_written_as_go_does(number, text):
    assert number_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_is_exact(number):
    assert float(number_text(number)) == number


def test_null_labels_are_empty_texts():
    assert decode_texts({"a": None, "b": "c"}) == {"a": "", "b": "c"}
    assert decode_texts(None) == decode_texts({}) == {}


@pytest.mark.parametrize(
    ("raw", "moment"),
    [
        (None, None),
        ("", None),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.250+02:00", datetime(2026, 1, 2, 1, 4, 5, 250000, tzinfo=UTC)),
    ],
)
def test_times_are_rfc_3339_and_become_utc(raw, moment):
    assert decode_time(raw, "at") == moment


def test_times_are_written_in_utc_and_whole_seconds():
    east = timezone(timedelta(hours=2))
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, 250000, tzinfo=east)) == "2026-01-02T01:04:05Z"


@pytest.mark.parametrize(
    "raw",
    ["2026-01-02", "20260102T030405Z", "2026-01-02T03:04:05", "2026-02-30T00:00:00Z", "soon"]
    + ["0001-01-01T00:00:00+14:00", "0000-01-01T00:00:00Z", "2026-01-02T03:04:05Z\n"],
)
def test_other_times_are_refused(raw):
    with pytest.raises(FieldError) as caught:
        decode_time(raw, "at")

    assert (str(caught.value), caught.value.found) == ("at: not an RFC 3339 time", raw)


def test_an_error_can_be_seen_from_outside():
    inner = FieldError("spec.x", "wrong", "7")
    outer = inner.under("spec.template")

    assert (outer.field, outer.problem, outer.found) == ("spec.template.spec.x", "wrong", "7")
    assert str(FieldError("", "wrong")) == "wrong"


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([], ""),
        ([0], "[0]"),
        (["spec", "containers", 0, "name"], "spec.containers[0].name"),
        (["metadata", "labels", "a.b/c"], "metadata.labels[a.b/c]"),
        (["limits", "limits", "x"], "limits[limits].x"),
    ],
)
def test_steps_are_written_as_upstream_writes_fields(steps, text):
    assert field_text(steps) == text


def test_foreign_text_is_shown_short_and_harmless():
    hostile = "a\n\x1b[2J\u202e\ud800é"

    assert printable(hostile) == r"a\n\x1b[2J\u202e\ud800é"
    assert quoted("x" * 100) == '"' + "x" * 64 + '..."'


@given(st.text(st.characters()))
def test_shown_text_is_always_one_printable_line(text):
    assert printable(text).isprintable()
