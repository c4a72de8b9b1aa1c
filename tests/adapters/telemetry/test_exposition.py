"""The text that Prometheus reads: escaping, exact numbers, bounds."""

import math

import pytest

from bursar.adapters.telemetry.exposition import (
    Family,
    Kind,
    Sample,
    exposition,
    histogram,
)
from bursar.core.model.quantity import Quantity


def a_family(name, text, *samples, kind=Kind.GAUGE):
    return Family(name=name, kind=kind, help=text, samples=samples)


def text_of(*families, **bounds):
    return exposition(families, **bounds).decode()


def test_a_family_has_help_type_and_samples():
    assert text_of(
        a_family("a_b_total", "How often.", Sample(3, {"b": "c", "d": "e"}), kind=Kind.COUNTER)
    ) == ('# HELP a_b_total How often.\n# TYPE a_b_total counter\na_b_total{b="c",d="e"} 3\n')


def test_a_family_without_samples_is_left_out():
    assert text_of(a_family("a", "Nothing.")) == ""


def test_label_values_and_help_are_escaped():
    text = text_of(a_family("a", 'One\\two\nthree "four"', Sample(1, {"b": 'x"y\\z\nend'})))

    assert text == (
        '# HELP a One\\\\two\\nthree "four"\n# TYPE a gauge\na{b="x\\"y\\\\z\\nend"} 1\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-7, "-7"),
        (True, "1"),
        (10**30, "1" + "0" * 30),
        (2.0, "2"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (Quantity.parse("100m"), "0.1"),
        (Quantity.parse("1Gi"), "1073741824"),
        (Quantity.parse("-1n"), "-0.000000001"),
        (Quantity.parse("9007199254740993"), "9007199254740993"),
    ],
)
def test_numbers_are_exact(value, text):
    assert text_of(a_family("a", "A number.", Sample(value))).splitlines()[-1] == f"a {text}"


def test_a_histogram_counts_up_to_each_bound():
    name = "bursar_release_seconds"
    family = histogram(name, bounds=(0.5, 10.0), counts=(2, 0, 3), total=99.5)

    assert text_of(family).splitlines()[1:] == [
        f"# TYPE {name} histogram",
        f'{name}_bucket{{le="0.5"}} 2',
        f'{name}_bucket{{le="10"}} 2',
        f'{name}_bucket{{le="+Inf"}} 5',
        f"{name}_sum 99.5",
        f"{name}_count 5",
    ]


def test_a_family_is_cut_and_says_by_how_much():
    samples = (Sample(number, {"n": str(number)}) for number in range(10))
    many = Family(name="many", kind=Kind.GAUGE, help="Many.", samples=samples)

    lines = text_of(many, a_family("few", "Few.", Sample(1)), samples_max=4).splitlines()

    assert [line for line in lines if line.startswith("many{")] == [
        f'many{{n="{number}"}} {number}' for number in range(4)
    ]
    assert lines[-1] == 'bursar_metrics_omitted_samples{family="many"} 6'
