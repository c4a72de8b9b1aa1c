"""The policy that bounds waiting pods, evaluated by upstream's CEL."""

import pytest

from bursar.app.admission.pods import queue_is_full
from bursar.app.controller.queue_limit import NAMESPACES_MAX, full_text
from bursar.app.install.admission import GatingSettings, waiting_pods_documents
from bursar.app.names import FULL_QUEUES_ANNOTATION, GATING_ANNOTATION
from bursar.core.quota.views.queue import FullQueues

pytestmark = pytest.mark.oracle

POLICY, _ = waiting_pods_documents(GatingSettings())
[RULE] = POLICY["spec"]["validations"]
[ACTIVE] = [
    each["expression"]
    for each in POLICY["spec"]["matchConditions"]
    if each["name"] == "controller-is-ready"
]
MANY = [f"{number:063}" for number in range(NAMESPACES_MAX)]


def evaluated(oracle, namespace, annotations):
    """The condition, the rule and its message, each as upstream evaluates it."""
    metadata = {} if annotations is None else {"annotations": annotations}
    scene = {"params": {"metadata": metadata}, "request": {"namespace": namespace}}
    texts = [
        text.replace("params.", "object.params.").replace("request.", "object.request.")
        for text in (ACTIVE, RULE["expression"], RULE["messageExpression"])
    ]
    return oracle.ask("cel", expressions=texts, object=scene, native={}, now="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("namespace", "full", "is_accepted"),
    [
        ("team", ["team"], False),
        ("team", ["a", "team", "z"], False),
        ("team", ["team-2", "my-team", "tea"], True),
        ("10", ["team"], True),
        ("team", [], True),
        (MANY[-1], MANY, False),
        ("team", MANY, True),
    ],
    ids=["alone", "among others", "parts of names", "number", "empty", "last of many", "of none"],
)
def test_pods_are_refused_in_the_namespaces_of_the_list(oracle, namespace, full, is_accepted):
    text = full_text(FullQueues(10, full=full))
    annotations = {GATING_ANNOTATION: "active", FULL_QUEUES_ANNOTATION: text}

    active, rule, message = evaluated(oracle, namespace, annotations if text else None)

    assert active["value"] == {"bool": bool(text)}
    assert rule["value"] == {"bool": is_accepted}
    assert message["type"] == "string", "the API server demands it"
    if not is_accepted:
        assert message["value"] == {"string": queue_is_full(namespace, "10")}
