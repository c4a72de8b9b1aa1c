"""Times and ages: RFC 1123 in a zone, and durations to two or three figures."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bursar.cli.output.ages import age, format_time, human_duration

NOON = datetime(2026, 4, 17, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (timedelta(0), "Fri, 17 Apr 2026 12:00:05 +0000"),
        (timedelta(hours=14), "Sat, 18 Apr 2026 02:00:05 +1400"),
        (timedelta(hours=-5), "Fri, 17 Apr 2026 07:00:05 -0500"),
        (timedelta(hours=5, minutes=45), "Fri, 17 Apr 2026 17:45:05 +0545"),
        (-timedelta(hours=4, minutes=56, seconds=2), "Fri, 17 Apr 2026 07:04:03 -0456"),
    ],
)
def test_a_time_is_written_in_the_readers_zone(offset, expected):
    assert format_time(NOON, timezone(offset)) == expected


def test_a_time_never_set_is_the_first_second_in_utc_whatever_the_zone():
    zone = timezone(timedelta(hours=-5))

    assert format_time(None, zone) == "Mon, 01 Jan 0001 00:00:00 +0000"


def test_a_time_beyond_the_calendar_of_its_zone_stays_in_utc():
    first = datetime(1, 1, 1, tzinfo=UTC)

    assert format_time(first, timezone(timedelta(hours=-5))) == "Mon, 01 Jan 0001 00:00:00 +0000"


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [
        (timedelta(seconds=-2), "<invalid>"),
        (timedelta(seconds=-1, milliseconds=-999), "0s"),
        (timedelta(0), "0s"),
        (timedelta(seconds=119, milliseconds=999), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=59), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=23), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=2919), "7y364d"),
        (timedelta(days=2920), "8y"),
        (timedelta(days=2 * 10**6), "292y"),
    ],
)
def test_a_duration_has_two_or_three_figures(elapsed, expected):
    assert human_duration(elapsed) == expected


def test_an_age_is_counted_from_the_moment_given():
    assert age(NOON - timedelta(minutes=5, seconds=7), NOON) == "5m7s"


@pytest.mark.parametrize("since", [None, datetime(1, 1, 1, tzinfo=UTC)])
def test_the_age_of_what_was_never_created_is_unknown(since):
    assert age(since, NOON) == "<unknown>"
