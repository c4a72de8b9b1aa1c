"""The text in which a leader records promises, and what is no such text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.quota.growth.promises import RecordedPromise
from bursar.core.quota.ledger import PodKey
from bursar.wire.quota.resize_promises import decode_promises, encode_promises

PROMISE = RecordedPromise(PodKey("a", "web"), "u", 7, {"requests.cpu": 4 * 10**9})
PROMISES = st.builds(
    RecordedPromise,
    st.builds(PodKey, st.text(), st.text()),
    st.text(),
    st.none() | st.integers(0, 2**63),
    st.dictionaries(st.text(), st.integers(0, 10**40), max_size=3),
)


def test_a_promise_is_written_as_documented():
    assert json.loads(encode_promises([PROMISE])) == [
        {
            "namespace": "a",
            "name": "web",
            "uid": "u",
            "resourceVersion": "7",
            "nanos": {"requests.cpu": "4000000000"},
        }
    ]
    assert encode_promises([]) == "[]"


@given(st.lists(PROMISES, max_size=3))
def test_what_is_written_is_read_back_in_any_order(promises):
    text = encode_promises(promises)

    assert encode_promises(decode_promises(text)) == text == encode_promises(promises[::-1])
    assert sorted(map(repr, decode_promises(text))) == sorted(
        repr(each._replace(amounts={name: each.amounts[name] for name in sorted(each.amounts)}))
        for each in promises
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"namespace": "a"}]',
        '[{"namespace":"a","name":"b","uid":"c","nanos":{"cpu":"-1"}}]',
        '[{"namespace":"a","name":"b","uid":"c","nanos":{"cpu":"٣"}}]',
        '[{"namespace":"a","name":"b","uid":"c","nanos":{"cpu":1}}]',
        '[{"namespace":"a","name":"b","uid":"c","nanos":{},"resourceVersion":"x"}]',
        '[{"namespace":"a","name":"b","uid":"c","nanos":{"cpu":"%s"}}]' % ("9" * 65),
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's own words
        decode_promises(text)
