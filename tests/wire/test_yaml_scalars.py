"""What YAML scalars mean; tests/oracle compares many more with the library inside kubectl."""

import math

import pytest

from bursar.wire.documents.yaml_scalars import (
    TAG_PREFIX,
    ScalarError,
    plain,
    plain_key,
    tagged,
    tagged_key,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("web", "web"),
        ("500m", "500m"),
        ("", None),
        ("~", None),
        ("Yes", True),
        ("off", False),
        ("0x10", 16),
        ("010", 8),
        ("0o10", 8),
        ("08", 8),
        ("-0b11", -3),
        ("0b-1", -1),
        ("1_000", 1000),
        ("18446744073709551615", 2**64 - 1),
        ("99999999999999999999", 10**20),
        ("123456789012345678901", 123456789012345680000),
        ("-9223372036854775809", -9223372036854776000),
        ("0x" + "f" * 70, "0x" + "f" * 70),
        ("0b" + "0" * 70 + "1", 1),
        ("1e3", 1000),
        ("129e6", 129_000_000),
        ("0.5", 0.5),
        (".5", 0.5),
        (".5_0", 0.5),
        ("._5", "._5"),
        ("1e21", 1e21),
        ("1e999", "1e999"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("+", "+"),
        ("9" * 1025, "9" * 1025),
    ],
)
def test_plain_scalars(text, value):
    meaning = plain(text)

    assert meaning == value
    assert type(meaning) is type(value)


def test_negative_zero_keeps_its_sign():
    zero = plain("-0.0")

    assert isinstance(zero, float)
    assert math.copysign(1, zero) == -1


@pytest.mark.parametrize("text", [".inf", "-.INF", ".NaN"])
def test_what_json_cannot_hold_is_refused(text):
    with pytest.raises(ScalarError, match="cannot be written in JSON"):
        plain(text)


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "5", "5"),
        ("int", "5", 5),
        ("float", "5", 5),
        ("float", "9007199254740993", 9007199254740992),
        ("float", "0.5", 0.5),
        ("bool", "on", True),
        ("null", "", None),
        ("timestamp", "2001-12-14", "2001-12-14"),
        ("timestamp", "2001-12-14T1:2:3.5-05:00", "2001-12-14T1:2:3.5-05:00"),
        ("timestamp", "0000-02-29 23:59:59", "0000-02-29 23:59:59"),
        ("binary", "aGVs\nbG8=", "hello"),
        ("binary", "/w==", "\ufffd"),
    ],
)
def test_tagged_scalars(tag, text, value):
    meaning = tagged(TAG_PREFIX + tag, text)

    assert meaning == value
    assert type(meaning) is type(value)


@pytest.mark.parametrize(
    ("tag", "text", "problem"),
    [
        ("int", "5.0", "!!int"),
        ("int", "true", "!!int"),
        ("bool", "1", "!!bool"),
        ("null", "x", "!!null"),
        ("float", "x", "!!float"),
        ("float", str(2**63), "!!float"),
        ("timestamp", "2001-02-30", "!!timestamp"),
        ("timestamp", "2001-02-03T25:00:00Z", "!!timestamp"),
        ("timestamp", "2001-02-03T10:00:00+25:00", "!!timestamp"),
        ("timestamp", "soon", "!!timestamp"),
        ("binary", "?", "base64"),
        ("set", "x", "unknown tag"),
    ],
)
def test_scalars_that_contradict_their_tag_are_refused(tag, text, problem):
    with pytest.raises(ScalarError, match=problem):
        tagged(TAG_PREFIX + tag, text)


def test_local_tags_are_unknown():
    with pytest.raises(ScalarError, match='unknown tag "!mine"'):
        tagged("!mine", "x")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cpu", "cpu"),
        ("8080", "8080"),
        ("0x10", "16"),
        ("yes", "true"),
        ("n", "false"),
        ("0.1", "0.1"),
        ("100.0", "100"),
        ("-0.0", "-0"),
        ("123456.0", "123456"),
        ("1234567.0", "1.234567e+06"),
        ("16777217.0", "1.6777216e+07"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("1e10", "1e+10"),
        ("1e39", ".inf"),
        ("-1e39", "-.inf"),
        ("1e-46", "0"),
        ("1.4e-45", "1e-45"),
        (".nan", ".nan"),
        ("-.inf", "-.inf"),
    ],
)
def test_keys_become_texts(text, key):
    assert plain_key(text) == key


def test_tagged_keys_become_texts():
    assert tagged_key(TAG_PREFIX + "float", "5") == "5"
    assert tagged_key(TAG_PREFIX + "str", "0x10") == "0x10"


@pytest.mark.parametrize("text", ["~", "", "18446744073709551615"])
def test_null_and_huge_numbers_are_no_keys(text):
    with pytest.raises(ScalarError, match="cannot be keys"):
        plain_key(text)
