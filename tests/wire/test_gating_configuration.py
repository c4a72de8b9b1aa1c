"""Which namespaces an installed policy or webhook selects."""

import json

from bursar.core.model.selectors.selector import LabelSelector
from bursar.wire.quota.gating_configuration import decode_gating

LABELS = {"matchLabels": {"team": "a"}}
CHOSEN = LabelSelector(match_labels={"team": "a"})


def decoded(**fields):
    return decode_gating(json.dumps({"metadata": {"uid": "u"}, **fields}).encode(), ("one", "two"))


def test_the_selector_of_a_binding():
    read = decoded(spec={"matchResources": {"namespaceSelector": LABELS}})
    assert (read.uid, read.selectors) == ("u", (CHOSEN,))


def test_a_binding_without_a_selector_selects_everything():
    assert decoded(spec={}).selectors == (LabelSelector(),)
    assert decode_gating(b"{}", ()).uid == ""


def test_a_configuration_without_webhooks_selects_nothing():
    """The API server leaves an empty list out."""
    assert decoded().selectors == decoded(webhooks=[]).selectors == ()


def test_the_selectors_of_the_webhooks_that_are_asked_for():
    hooks = [{"name": "one", "namespaceSelector": LABELS}, {"name": "two"}, {"name": "three"}]
    assert decoded(webhooks=hooks).selectors == (CHOSEN, LabelSelector())
