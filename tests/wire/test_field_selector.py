"""`--field-selector`: any field with a single value can be named."""

import pytest

from bursar.wire.documents.tree import Number, Value
from bursar.wire.field_selector import FieldSelectorError, parse_field_selector

POD: dict[str, Value] = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"nodeName": "a", "priority": 5, "hostNetwork": True, "weight": Number("1.10")},
    "status": {"phase": "Running", "ready": False},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web", True),
        ("metadata.name!=web", False),
        ("metadata.name=db", False),
        ("spec.nodeName=a,status.phase!=Failed", True),
        (" spec.nodeName = a , status.phase = Failed ", False),
        ("spec.priority=5", True),
        ("spec.hostNetwork=true", True),
        ("status.ready=false", True),
        ("spec.weight=1.10", True),
        ("status.podIP=", True),
        ("status.podIP!=", False),
        ("status.phase.deeper=", True),
        ("metadata.labels=", True),
    ],
)
def test_a_condition_compares_the_text_of_a_field(text: str, *, matches: bool) -> None:
    assert parse_field_selector(text).matches(POD) is matches


@pytest.mark.parametrize("text", ["metadata.name", "=web", "a=b,c"])
def test_what_is_not_a_condition_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(FieldSelectorError, match="write field=value or field!=value"):
        parse_field_selector(text)
