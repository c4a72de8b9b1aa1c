"""Catalogues of instance types. How files are read is tested with `bursar peerpod instance`."""

import pytest

from bursar.wire.peerpods.catalogue import decode_catalogue
from bursar.wire.structs.fields import FieldError

FIELDS = "name, provider, arch, vcpus, memory, gpus, price"
LARGE = {"name": "m5.large", "vcpus": 2, "memory": "8Gi"}


def of(**fields: object) -> dict[str, object]:
    """A catalogue of one type that differs in these fields."""
    return {"instanceTypes": [{**LARGE, **fields}]}


def test_a_catalogue_may_say_what_it_is():
    header = {"apiVersion": "bursar.io/v1alpha1", "kind": "InstanceCatalogue"}

    assert decode_catalogue({**header, "instanceTypes": [LARGE]}) == decode_catalogue(
        {"instanceTypes": [LARGE]}
    )


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (
            {"instanceTypes": [LARGE, {**LARGE, "name": "p3", "gpu": 1}]},
            f"instanceTypes[1].gpu: unknown field; there are {FIELDS}",
        ),
        (
            {"instanceTypes": [LARGE], "instance_types": []},
            "instance_types: unknown field; there are apiVersion, kind, instanceTypes",
        ),
        (
            {"instanceTypes": [{**LARGE, "a\x1b[2J": 1}]},
            f"instanceTypes[0].a\\x1b[2J: unknown field; there are {FIELDS}",
        ),
        (
            {"kind": "Pod", "metadata": {}},
            'kind: InstanceCatalogue is expected, found "Pod"',
        ),
        (
            {"apiVersion": "v1", "instanceTypes": [LARGE]},
            'apiVersion: bursar.io/v1alpha1 is expected, found "v1"',
        ),
        ({"instanceTypes": None}, "instanceTypes: required, but missing or empty"),
        ([LARGE], "an object with instanceTypes is expected"),
        ({"instanceTypes": [LARGE, LARGE]}, "instanceTypes[1].name: is there already"),
        (of(name=None), "instanceTypes[0].name: required, but missing"),
        (of(memory="1023Ki"), "instanceTypes[0].memory: must be at least 1Mi"),
        (of(vcpus=0), "instanceTypes[0].vcpus: must be at least 1"),
        (of(gpus=-1), "instanceTypes[0].gpus: must not be negative"),
        (of(price="-1"), "instanceTypes[0].price: must not be negative"),
    ],
)
def test_what_a_catalogue_does_not_have_is_refused_by_name(value, complaint):
    with pytest.raises(FieldError) as refused:
        decode_catalogue(value)

    assert str(refused.value) == complaint
