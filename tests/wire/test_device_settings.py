"""The settings file of sources, and where its errors are."""

import pytest

from bursar.core.devices.source import (
    KOORDINATOR,
    Delimiters,
    Fields,
    KindRule,
    Layout,
    Shape,
    Source,
)
from bursar.wire.devices.settings import KINDS_MAX, NAMES_MAX, SOURCES_MAX, decode_sources

HAMI = """
sources:
- name: hami
  annotation: hami.io/vgpu-devices-allocated
  layout:
    shape: delimited
    kind: gpu
    delimiters:
      order: [device, vendor, hami.io/memory, hami.io/cores, ""]
  kinds:
    gpu:
      resource: nvidia.com/gpu
      byVendor: {NVIDIA: nvidia.com/gpu, MLU: cambricon.com/mlu}
      byPrefix: {GPU-: nvidia.com/gpu}
      askedBy: [nvidia.com/gpu, nvidia.com/gpumem]
      counted: [nvidia.com/gpu]
      percent: [hami.io/cores]
      bounded: true
      numbered: true
      chargedAs: gpus/hami
  inventoried: true
"""


MANY_KINDS = ", ".join(f"k{number}: {{}}" for number in range(KINDS_MAX + 1))
MANY_NAMES = ", ".join(["a.b/c"] * (NAMES_MAX + 1))


def minimal(**fields: str) -> str:
    """A file of one source, with some of its fields written otherwise or left out."""
    lines = {
        "name": "other",
        "annotation": "a.example/b",
        "layout": "{}",
        "kinds": "{gpu: {resource: a.example/gpu}}",
    } | fields
    written = ", ".join(f"{name}: {value}" for name, value in lines.items() if value)
    return "sources: [{" + written + "}]"


def read(text: str) -> tuple[Source, ...]:
    return decode_sources(text.encode())


def one(**fields: str) -> Source:
    return read(minimal(**fields))[1]


def test_every_field_can_be_written():
    assert read(HAMI) == (
        KOORDINATOR,
        Source(
            name="hami",
            annotation="hami.io/vgpu-devices-allocated",
            layout=Layout(
                shape=Shape.DELIMITED,
                kind="gpu",
                delimiters=Delimiters(
                    order=("device", "vendor", "hami.io/memory", "hami.io/cores", "")
                ),
            ),
            kinds={
                "gpu": KindRule(
                    resource="nvidia.com/gpu",
                    by_vendor={"nvidia": "nvidia.com/gpu", "mlu": "cambricon.com/mlu"},
                    by_prefix={"GPU-": "nvidia.com/gpu"},
                    asked_by=("nvidia.com/gpu", "nvidia.com/gpumem"),
                    counted=("nvidia.com/gpu",),
                    percent=("hami.io/cores",),
                    is_bounded=True,
                    is_numbered=True,
                    charged_as="gpus/hami",
                )
            },
            is_inventoried=True,
        ),
    )


def test_what_is_left_out_is_as_usual():
    assert one() == Source(
        name="other",
        annotation="a.example/b",
        kinds={"gpu": KindRule(resource="a.example/gpu")},
    )


def test_fields_of_json_can_have_other_names_or_none():
    layout = '{shape: list, kind: gpu, fields: {device: uuid, minor: "", functionAddress: addr}}'

    assert one(layout=layout).layout == Layout(
        shape=Shape.LIST,
        kind="gpu",
        fields=Fields(device="uuid", minor="", function_address="addr"),
    )


def test_json_is_read_as_well_as_yaml():
    text = (
        '{"sources":[{"name":"a","annotation":"b","kinds":{"g":{"resource":"c.example/d"}},'
        '"layout":{"shape":"byContainer"}}]}'
    )

    assert read(text)[1].layout.shape is Shape.BY_CONTAINER


def test_koordinators_own_can_be_replaced_or_switched_off():
    replaced = read(minimal(name="koordinator"))
    assert [each.annotation for each in replaced] == ["a.example/b"]
    assert [each.name for each in read("koordinator: false\n" + minimal())] == ["other"]
    assert read("koordinator: true") == (KOORDINATOR,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1:1: one document with a list of sources is expected"),
        ("a: 1\n---\nb: 2", "1:1: one document with a list of sources is expected"),
        ("[]", "1:1: an object with sources is expected, found a list"),
        ("source: []", "1:9: source: unknown; one of koordinator, sources is expected"),
        ("koordinator: false", "1:1: sources: required if koordinator is switched off"),
        ("sources: {}", "1:10: sources: a list is expected, found an object"),
        ("sources:\n- nam: x", "2:8: sources[0].nam: unknown; one of name, annotation, layout"),
        (minimal(layout="{shap: list}"), "sources[0].layout.shap: unknown; one of shape, kind"),
        (minimal(kinds="{gpu: {res: 1}}"), "sources[0].kinds[gpu].res: unknown; one of resource"),
        (
            minimal(kinds="{gpu: {resource: a.example/gpu, chargedAs: a.example/gpu}}"),
            'sources[0].kinds.gpu.chargedAs: "a.example/gpu" is no name of an amount that quotas',
        ),
        (minimal(name=""), "sources[0].name: required, but missing or empty"),
        (minimal(name="Other"), "sources[0].name: small letters, digits and dashes"),
        (minimal(name="kubelet"), '1:18: sources[0].name: "kubelet" is reserved'),
        (minimal(name="status"), 'sources[0].name: "status" is reserved'),
        (minimal(name="dra"), 'sources[0].name: "dra" is reserved'),
        (minimal(name="1"), "sources[0].name: a string is expected, found a number; quote it"),
        (minimal(annotation=""), "sources[0].annotation: required"),
        (minimal(annotation="a b"), "sources[0].annotation: no key of an annotation"),
        (minimal(kinds=""), "sources[0].kinds: required: which kinds of devices it gives"),
        (minimal(kinds="{gpu: {}}"), "sources[0].kinds.gpu.resource: required"),
        (minimal(kinds="{gpu: {resource: cpu}}"), '"cpu" is no name of an extended resource'),
        (minimal(kinds='{"g\\tpu": {resource: a.b/c}}'), 'sources[0].kinds: "g\\tpu" has other'),
        (
            minimal(kinds="{g: {resource: a.b/c, askedBy: [a.b/c, x]}}"),
            'sources[0].kinds.g.askedBy[1]: "x" is no name',
        ),
        (
            minimal(kinds='{g: {resource: a.b/c, byPrefix: {"": a.b/c}}}'),
            "sources[0].kinds.g.byPrefix: required",
        ),
        (minimal(layout="{shape: csv}"), "sources[0].layout.shape: one of byType, list"),
        (minimal(layout="{kind: npu}"), 'sources[0].layout.kind: "npu" is none of the kinds'),
        (
            minimal(layout='{shape: list, fields: {kind: ""}}'),
            "sources[0].layout.kind: required, because the devices do not name their kind",
        ),
        (minimal(layout="{shape: delimited}"), "sources[0].layout.kind: required, because"),
        (
            minimal(layout="{shape: delimited, kind: gpu, fields: {}}"),
            "sources[0].layout.fields: only JSON has these",
        ),
        (minimal(layout="{delimiters: {}}"), "sources[0].layout.delimiters: only the shape"),
        (
            minimal(layout='{fields: {device: "", minor: ""}}'),
            "sources[0].layout.fields: device or minor is required",
        ),
        (
            minimal(layout="{shape: delimited, kind: gpu, delimiters: {order: [what]}}"),
            "sources[0].layout.delimiters.order[0]: container, device, kind, minor",
        ),
        (
            minimal(layout="{shape: delimited, kind: gpu, delimiters: {order: [device, device]}}"),
            'sources[0].layout.delimiters.order[1]: "device" is there already',
        ),
        (
            minimal(layout="{shape: delimited, kind: gpu, delimiters: {order: [vendor]}}"),
            "sources[0].layout.delimiters.order: device or minor is required",
        ),
        (
            minimal(layout='{shape: delimited, kind: gpu, delimiters: {devices: ","}}'),
            "sources[0].layout.delimiters: containers, devices and fields must be cut by different",
        ),
        (
            minimal(layout='{shape: delimited, kind: gpu, delimiters: {fields: ""}}'),
            "sources[0].layout.delimiters.fields: required",
        ),
        (f"sources: [{'{},' * (SOURCES_MAX + 1)}]", "sources: more than"),
        (minimal(kinds=f"{{{MANY_KINDS}}}"), "sources[0].kinds: more than"),
        (
            minimal(kinds=f"{{g: {{resource: a.b/c, percent: [{MANY_NAMES}]}}}}"),
            "sources[0].kinds.g.percent: more than",
        ),
    ],
)
def test_mistake_is_told_with_its_place_and_what_is_expected(text, complaint):
    with pytest.raises(ValueError, match=r"^[0-9]+:[0-9]+: ") as refused:
        read(text)
    assert complaint in str(refused.value)
    assert str(refused.value).isprintable()


def test_two_sources_of_one_name_are_a_mistake():
    text = HAMI + HAMI.replace("\nsources:\n", "")

    with pytest.raises(ValueError, match=r'sources\[1\]\.name: "hami" is there already$'):
        read(text)
