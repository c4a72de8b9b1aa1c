"""What was probably meant by a text that is not a quantity."""

import pytest

from bursar.wire.structs.quantity_hint import likely_quantity


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("512MB", "512Mi"),
        ("512mb", "512Mi"),
        ("0.5GB", "512Mi"),
        ("1 GiB", "1Gi"),
        ("64mi", "64Mi"),
        ("10 kB", "10Ki"),
        ("1,5Gi", "1536Mi"),
        ("2 Gi", "2Gi"),
        ("1,5", "1500m"),
        ("2 cores", None),
        ("1.2.3 Gi", None),
        ("much", None),
        ("", None),
    ],
)
def test_amounts_as_other_programs_write_them_are_recognized(text, meant):
    assert likely_quantity(text) == meant
