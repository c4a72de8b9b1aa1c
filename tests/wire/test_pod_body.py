import json

import pytest

from bursar.wire.counting.pod_body import keep_body, without_gates

POD = {
    "metadata": {"name": "web", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"schedulingGates": [{"name": "gate"}], "containers": [{"name": "a", "new": 1.5}]},
}


def test_a_kept_pod_has_every_field_but_managed_fields():
    kept = json.loads(keep_body(json.dumps(POD).encode()).json())

    assert kept == POD | {"metadata": {"name": "web"}}


def test_a_pod_without_gates_is_as_after_its_release():
    freed = json.loads(without_gates(json.dumps(POD).encode()))

    assert freed == POD | {"spec": {"containers": [{"name": "a", "new": 1.5}]}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"not JSON",
        b'{"metadata": null}',
        b'{"metadata": {"\xff": 1}, "spec": {"\xff": 1}}',
        b'{"metadata": "text"}',
        b'{"spec": {}}',
        b'{"metadata": {"name": "web"}}',
    ],
)
def test_a_body_without_these_fields_is_kept_as_it_is(body):
    assert keep_body(body).json() == body
    assert without_gates(body) == body
