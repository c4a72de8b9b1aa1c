"""The text of the record annotation, and texts that are no record."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.pod import ClaimReference, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.decision import ANNOTATIONS_BYTES_MAX
from bursar.core.peerpods.record import Record
from bursar.core.peerpods.sizing import ContainerKind, ContainerResources, SizeTexts
from bursar.wire.peerpods.record import RecordError, format_record, parse_record
from support.builders.pods import resources

FULL = Record(
    containers=(
        ContainerResources(
            name="c0",
            kind=ContainerKind.CONTAINER,
            resources=ResourceRequirements(
                requests={"cpu": Quantity.parse("1.500"), "memory": Quantity.parse("1.5Gi")},
                limits={"cpu": Quantity.parse("2"), "ephemeral-storage": Quantity.parse("1000E")},
                claims=(ClaimReference(name="card"), ClaimReference(name="nic", request="one")),
            ),
        ),
        ContainerResources(name="i0", kind=ContainerKind.INIT, resources=resources("cpu=100n")),
        ContainerResources(
            name="i1", kind=ContainerKind.SIDECAR, resources=resources("memory=1e3")
        ),
    ),
    pod=resources("cpu=2", "memory=4Gi"),
    size=SizeTexts("2", "4096", ""),
    instance="m6a.large",
)


def test_a_record_is_compact_text_and_comes_back():
    text = format_record(FULL)

    assert parse_record(text) == FULL
    assert parse_record(format_record(Record())) == Record()
    assert '"requests":{"cpu":"1.500","memory":"1536Mi"}' in text
    assert '"size":{"vcpus":"2","memory":"4096"}' in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "null",
        "{}",
        '{"v":1}',
        '{"v":"2"}',
        '{"v":"1","more":"x"}',
        '{"v":"1","containers":{}}',
        '{"v":"1","containers":[{"name":"a"}]}',
        '{"v":"1","containers":[{"name":"a","kind":"pod"}]}',
        '{"v":"1","containers":[{"name":1,"kind":"init"}]}',
        '{"v":"1","containers":[{"name":"a","kind":"init"},{"name":"a","kind":"init"}]}',
        '{"v":"1","pod":{"requests":{"cpu":"x"}}}',
        '{"v":"1","pod":{"requests":{"cpu":"-1"}}}',
        '{"v":"1","pod":{"requests":{"cpu":null}}}',
        '{"v":"1","pod":{"claims":[{"name":"a","more":"x"}]}}',
        '{"v":"1","size":{"disks":"1"}}',
        '{"v":"1","instance":true}',
        "[" * 100_000,
        '{"v":"1","instance":"' + "x" * ANNOTATIONS_BYTES_MAX + '"}',
    ],
    ids=lambda text: text[:60],
)
def test_what_is_no_record_is_refused(text):
    with pytest.raises(RecordError):
        parse_record(text)


@given(st.text() | st.recursive(st.text() | st.integers(), st.lists, max_leaves=5).map(json.dumps))
def test_any_text_is_either_a_record_or_refused(text):
    with contextlib.suppress(RecordError):
        assert isinstance(parse_record(text), Record)


@pytest.mark.parametrize("text", ["1e9", "1E9", "10e9", "1.500", "1G", "1000000001", "0", "5e-3"])
def test_an_amount_is_recorded_as_the_api_server_stores_it(text):
    record = Record(pod=resources(f"memory={text}"))

    assert json.loads(format_record(record))["pod"]["requests"] == {"memory": text}


def test_an_amount_whose_text_kubernetes_would_shorten_is_recorded_exactly():
    """Kubernetes prints 1000E as `1`."""
    text = format_record(Record(pod=resources("memory=1000E")))

    assert json.loads(text)["pod"]["requests"] == {"memory": "1e21"}
    assert parse_record(text).pod == resources("memory=1000E")
