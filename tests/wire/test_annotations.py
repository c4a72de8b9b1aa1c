import pytest

from bursar.wire.cluster.annotations import decode_annotation


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"metadata": {"annotations": {"a": "b"}}}', "b"),
        (b'{"metadata": {"annotations": {"other": "b"}}}', ""),
        (b'{"metadata": {"annotations": null}}', ""),
        (b"{}", ""),
    ],
)
def test_an_annotation_is_found_or_empty(body, value):
    assert decode_annotation(body, "a") == value


def test_a_body_that_is_no_object_is_refused():
    with pytest.raises(ValueError, match="not an object with metadata"):
        decode_annotation(b"[]", "a")
