"""The table of sources as a file, and what is read by it."""

import json

import pytest

from bursar.adapters.device_reading import (
    SOURCES_BYTES_MAX,
    DeviceReading,
    SourcesFileError,
    read_sources,
)

POD = {
    "metadata": {
        "namespace": "team",
        "name": "p",
        "annotations": {
            "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"id":"GPU-0"}]}'
        },
    }
}


def test_without_a_file_koordinator_is_the_only_source():
    reading = DeviceReading(read_sources(""))

    assert [*reading.sources] == ["koordinator"]
    (claims,) = reading.pod(json.dumps(POD).encode()).claims
    assert [each.device for each in claims.claims] == ["GPU-0"]
    (listed,) = reading.pods(json.dumps({"kind": "PodList", "items": [POD]}).encode())
    assert listed == reading.pod(json.dumps(POD).encode())


def test_an_inventory_is_read():
    body = {
        "metadata": {"name": "n"},
        "spec": {"devices": [{"type": "gpu", "minor": 0, "id": "g"}]},
    }
    (device,) = DeviceReading(()).inventory(json.dumps(body).encode()).devices

    assert (device.kind, device.id) == ("gpu", "g")


@pytest.mark.parametrize(
    "content", [b"sources: 7", b"- a", b"\xff", b"#" * (SOURCES_BYTES_MAX + 1)]
)
def test_a_file_that_is_no_table_is_told_in_one_line(tmp_path, content):
    file = tmp_path / "sources.yaml"
    file.write_bytes(content)
    with pytest.raises(SourcesFileError) as caught:
        read_sources(str(file))

    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(SourcesFileError, match="directory"):
        read_sources(str(tmp_path))
