"""`bursar peerpod rewrite`: numbers that the rewrite does not touch stay as they were written."""

import json
from typing import Any

import pytest

from cli.test_peerpod import run
from support.builders.peer_pods import RECORD, a_peer_pod, main

NUMBERS = [
    *("12345678901234567890123", "9007199254740993", "18446744073709551616", "-1", "0"),
    *("1.10", "1.0", "-0", "-0.0", "0.1", "100", "1e9", "1E+22", "1e-7", "1.5e300", "1e-400"),
]
"""Beyond 2^53 and 64 bits, with zeros that carry no value, and with exponents."""

JSON_POD = json.dumps(a_peer_pod(main("cpu=1"), future=["<numbers>"]))


def from_json(number: str) -> str:
    return JSON_POD.replace('"<numbers>"', number)


def from_yaml(number: str) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop}}
spec:
  runtimeClassName: kata-remote
  containers: [{{name: c0, resources: {{requests: {{cpu: 1}}}}}}]
  future: [{number}]
"""


def in_yaml(number: str) -> str:
    """A number with an exponent has a dot and a sign: without them YAML 1.1 reads a text."""
    digits, mark, power = number.lower().partition("e")
    if not mark:
        return number
    dotted = digits if "." in digits else f"{digits}.0"
    return f"{dotted}e{power if power[0] in '+-' else f'+{power}'}"


def printed(text: str, output: str) -> str:
    ran = run("rewrite", "-f", "-", "-o", output, stdin=text)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize("written", [from_json, from_yaml])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_printed_as_it_was_written(written, number):
    assert f"\n      {number}\n" in printed(written(number), "json")
    assert f"\n  - {in_yaml(number)}\n" in printed(written(number), "yaml")


@pytest.mark.parametrize(
    ("number", "decimal"),
    [("0x1F", "31"), ("010", "8"), ("1_000", "1000"), ("+1", "1"), (".5", "0.5"), ("1.", "1")],
)
def test_a_number_that_only_yaml_can_spell_is_printed_in_decimal(number, decimal):
    assert f"\n      {decimal}\n" in printed(from_yaml(number), "json")
    assert f"\n  - {decimal}\n" in printed(from_yaml(number), "yaml")


def test_a_number_in_an_unchanged_object_stays_as_well():
    other = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "a"}, "x": "<n>"}
    text = json.dumps(other).replace('"<n>"', "12345678901234567890123")

    assert '"x": 12345678901234567890123' in printed(text, "json")


def recorded(text: str) -> Any:
    document = json.loads(printed(text, "json"))
    [container] = json.loads(document["metadata"]["annotations"][RECORD])["containers"]
    return container["requests"]["memory"]


@pytest.mark.parametrize(
    ("written", "stored"),
    [("1e9", "1e9"), ('"1e9"', "1e9"), ("10e8", "1e9"), ("1.50", "1500m"), ("1000000000", "1G")],
)
def test_an_amount_in_json_is_recorded_as_the_api_server_would_store_it(written, stored):
    pod = json.dumps(a_peer_pod(main("memory=<n>"))).replace('"<n>"', written)

    assert recorded(pod) == stored


@pytest.mark.parametrize(
    ("written", "stored"), [("1e9", "1G"), ("'1e9'", "1e9"), ("1.50", "1500m")]
)
def test_an_amount_in_yaml_is_recorded_as_kubectl_would_send_it(written, stored):
    """kubectl turns YAML into JSON, in which the bare `1e9` is `1000000000`."""
    text = from_yaml("1").replace("{cpu: 1}", f"{{memory: {written}}}")

    assert recorded(text) == stored
