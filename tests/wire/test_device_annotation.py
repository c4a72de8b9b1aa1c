"""Device annotations are decoded as Go decodes them, and hostile ones are rejected."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.source import (
    KOORDINATOR,
    Delimiters,
    Fields,
    KindRule,
    Layout,
    Shape,
    Source,
)
from bursar.wire.devices.annotation import (
    AMOUNTS_MAX,
    CLAIMS_MAX,
    FUNCTIONS_MAX,
    TEXT_LENGTH_MAX,
    decode_claims,
)
from bursar.wire.devices.values import WORD_LENGTH_MAX

UUID = "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d"


def source_of(layout: Layout) -> Source:
    rule = KindRule(resource="vendor.example/gpu")
    return Source(name="other", annotation="a/b", layout=layout, kinds={"gpu": rule})


HAMI = source_of(
    Layout(
        shape=Shape.DELIMITED,
        kind="gpu",
        delimiters=Delimiters(order=("device", "vendor", "hami.io/memory", "hami.io/cores")),
    )
)
LISTED = source_of(Layout(shape=Shape.LIST, kind="gpu", fields=Fields(device="uuid")))
BY_CONTAINER = source_of(Layout(shape=Shape.BY_CONTAINER, kind="gpu"))


def read(text: str, source: Source = KOORDINATOR) -> tuple[Claim, ...]:
    claims = decode_claims(text, source)
    assert claims is not None
    assert claims.problem == ""
    return claims.claims


# ------------------------------------------------------------------ Koordinator's


def test_two_accelerators_and_a_nic_are_read_in_order():
    text = (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100",'
        '"koordinator.sh/gpu-memory":"16Gi"},"id":"UUID"},{"minor":1,"id":"GPU-2"}],'
        '"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":100},"id":"0000:1f:00.0"}]}'
    ).replace("UUID", UUID)

    assert decode_claims(text, KOORDINATOR) == Claims(
        source="koordinator",
        kinds=("gpu", "rdma"),
        claims=(
            Claim(
                kind="gpu",
                device=UUID,
                minor=0,
                amounts={"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": 16 * 2**30},
            ),
            Claim(kind="gpu", device="GPU-2", minor=1),
            Claim(
                kind="rdma", device="0000:1f:00.0", minor=1, amounts={"koordinator.sh/rdma": 100}
            ),
        ),
    )


def test_virtual_functions_and_templates_stand_in_the_extension():
    text = (
        '{"rdma":[{"minor":0,"id":"0000:01:00.0","extension":'
        '{"vfs":[{"minor":-1,"busID":"0000:01:00.2"},{},null]}}],'
        '"gpu":[{"minor":0,"id":"N","extension":{"gpuSharedResourceTemplate":"vir04"}},'
        '{"id":"M","extension":{}},{"id":"L","extension":null}]}'
    )

    nic, part, empty, none = read(text)
    assert nic.functions == ("0000:01:00.2", "", "")
    assert (part.template, part.functions) == ("vir04", ())
    assert [each.is_extended for each in (nic, part, empty, none)] == [True, True, True, False]


def test_null_amounts_and_devices_without_id_are_read():
    assert read('{"gpu":[{"minor":0,"resources":null,"id":"a"}],"fpga":[{"minor":1},{}]}') == (
        Claim(kind="gpu", device="a", minor=0),
        Claim(kind="fpga", minor=1),
        Claim(kind="fpga"),
    )


def test_annotation_that_is_null_says_nothing_and_an_empty_one_says_no_devices():
    assert decode_claims("null", KOORDINATOR) is None
    assert decode_claims(" {} ", KOORDINATOR) == Claims(source="koordinator")


def test_kinds_without_devices_are_named_all_the_same():
    claims = decode_claims('{"gpu":[],"odd":null}', KOORDINATOR)

    assert claims == Claims(source="koordinator", kinds=("gpu", "odd"))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ('{"gpu":[{"ID":"a","Minor":3}]}', Claim(kind="gpu", device="a", minor=3)),
        ('{"gpu":[{"id":"a","ID":"b"}]}', Claim(kind="gpu", device="b")),
        ('{"gpu":[{"id":"a","ID":null}]}', Claim(kind="gpu", device="a")),
        ('{"gpu":[{"id":"a","other":{"x":[1]}}]}', Claim(kind="gpu", device="a")),
        ('{"gpu":[{"id":"a","other":1,"other":"x"}]}', Claim(kind="gpu", device="a")),
        ('{"gpu":[{"id":"a","vendor":5}]}', Claim(kind="gpu", device="a")),
        ('{"gpu":[{"id":"a","vendor":"huawei"}]}', Claim(kind="gpu", device="a")),
        ('{"gpu":[{"id":"x"}],"gpu":[{"id":"a"}]}', Claim(kind="gpu", device="a")),
        ('{"GPU":[{"minor":-0}]}', Claim(kind="GPU", minor=0)),
        ('{"gpu":[{"re\u017fource\u017f":{"a/b":"1"}}]}', Claim(kind="gpu", amounts={"a/b": 1})),
        (
            '{"gpu":[{"resources":{"a/b":1,"c/d":1},"resources":{"a/b":"1500m"}}]}',
            Claim(kind="gpu", amounts={"a/b": 2, "c/d": 1}),
        ),
        (
            '{"gpu":[{"extension":{"vfs":[{"busID":"f"}]},"Extension":{"other":1}}]}',
            Claim(kind="gpu", functions=("f",), is_extended=True),
        ),
        (
            '{"gpu":[{"extension":{"vfs":[{"busID":"f"}]},"extension":null}]}',
            Claim(kind="gpu"),
        ),
        (
            '{"gpu":[{"resources":{"a/b":null,"c/d":0.1,"e/f":1e30}}]}',
            Claim(kind="gpu", amounts={"a/b": 0, "c/d": 1, "e/f": 2**63 - 1}),
        ),
    ],
)
def test_keys_and_values_are_taken_as_go_takes_them(text, claim):
    assert read(text) == (claim,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{}{}",
        "{} x",
        "[]",
        '"gpu"',
        "1",
        '{"gpu":{}}',
        '{"gpu":"a"}',
        '{"gpu":[null]}',
        '{"gpu":[[]]}',
        '{"gpu":["a"]}',
        '{"gpu":[{"minor":"0"}]}',
        '{"gpu":[{"minor":1.0}]}',
        '{"gpu":[{"minor":1e1}]}',
        '{"gpu":[{"minor":true}]}',
        '{"gpu":[{"minor":2147483648}]}',
        '{"gpu":[{"minor":%s}]}' % ("9" * 5000),
        '{"gpu":[{"minor":NaN}]}',
        '{"gpu":[{"other":Infinity}]}',
        '{"gpu":[{"id":1}]}',
        '{"gpu":[{"id":["a"]}]}',
        '{"gpu":[{"id":"a\\u0000b"}]}',
        '{"gpu":[{"id":"a\\u001b[2J"}]}',
        '{"gpu":[{"id":"\u202egpj"}]}',
        '{"gpu":[{"id":"\\ud800"}]}',
        '{"gpu":[{"id":"%s"}]}' % ("a" * (WORD_LENGTH_MAX + 1)),
        '{"g\\npu":[]}',
        '{"gpu":[{"resources":[]}]}',
        '{"gpu":[{"resources":{"a/b":"lots"}}]}',
        '{"gpu":[{"resources":{"a/b":{}}}]}',
        '{"gpu":[{"resources":{"a/b":[]}}]}',
        '{"gpu":[{"resources":{"a/b":true}}]}',
        '{"gpu":[{"resources":{"a/b":"-1"}}]}',
        '{"gpu":[{"resources":{"a\\tb":"1"}}]}',
        '{"gpu":[{"extension":[]}]}',
        '{"gpu":[{"extension":{"vfs":{}}}]}',
        '{"gpu":[{"extension":{"vfs":["a"]}}]}',
        '{"gpu":[{"extension":{"vfs":[{"minor":"x"}]}}]}',
        '{"gpu":[{"extension":{"vfs":[{"busID":1}]}}]}',
        '{"gpu":[{"extension":{"gpuSharedResourceTemplate":[]}}]}',
        '{"gpu":[{"extension":{"vfs":[{"minor":9999999999999999999}]}}]}',
        '{"gpu":[{"id":5,"id":"a"}]}',
        '{"gpu":[{"id":"a","ID":5}]}',
        '{"gpu":[{"id":5,"id":"a","id":"b"}]}',
        '{"gpu":[{"minor":"x","minor":1}]}',
        '{"gpu":[{"resources":{"a/b":"lots","a/b":"1"}}]}',
        '{"gpu":"a","gpu":[{"id":"a"}]}',
        '{"gpu":[{"id":1}],"gpu":[{"id":"a"}]}',
        '{"gpu":' + "[" * 20_000,
        '{"gpu":[{"other":' + "[" * 20_000 + "]" * 20_000 + "}]}",
        json.dumps({"gpu": [{}] * (CLAIMS_MAX + 1)}),
        json.dumps({f"k{index}": [] for index in range(CLAIMS_MAX + 1)}),
        json.dumps({"gpu": [{"extension": {"vfs": [{}] * (FUNCTIONS_MAX + 1)}}]}),
        json.dumps({"gpu": [{"resources": {f"a/{n}": 1 for n in range(AMOUNTS_MAX + 1)}}]}),
        " " * (TEXT_LENGTH_MAX + 1),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_is_not_as_it_should_be_is_refused_in_one_safe_line(text):
    with pytest.raises(ValueError, match=r"^.+$") as refused:
        decode_claims(text, KOORDINATOR)
    assert str(refused.value).isprintable()


def test_refusal_says_where_and_what():
    with pytest.raises(ValueError, match=r"^\"gpu\"\[1\]\.minor: a whole number is expected$"):
        decode_claims('{"gpu":[{},{"minor":"0"}]}', KOORDINATOR)
    with pytest.raises(ValueError, match=r"^\"gpu\"\[0\]\.resources: .*regular expression"):
        decode_claims('{"gpu":[{"resources":{"a/b":"x"}}]}', KOORDINATOR)
    with pytest.raises(ValueError, match=r"^not JSON: Extra data \(character 3\)$"):
        decode_claims("{} x", KOORDINATOR)


# ------------------------------------------------------------------ other layouts


def test_delimited_text_is_cut_into_containers_devices_and_fields():
    assert read("GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,1.5k,0:;;GPU-3,NVIDIA,1,1,more:", HAMI) == (
        Claim(
            kind="gpu",
            device="GPU-1",
            vendor="NVIDIA",
            container_index=0,
            amounts={"hami.io/memory": 3000, "hami.io/cores": 30},
        ),
        Claim(
            kind="gpu",
            device="GPU-2",
            vendor="NVIDIA",
            container_index=0,
            amounts={"hami.io/memory": 1500, "hami.io/cores": 0},
        ),
        Claim(
            kind="gpu",
            device="GPU-3",
            vendor="NVIDIA",
            container_index=2,
            amounts={"hami.io/memory": 1, "hami.io/cores": 1},
        ),
    )
    assert read("", HAMI) == ()


def test_delimited_fields_may_say_kind_number_and_container():
    order = ("kind", "minor", "container", "template", "")
    layout = Layout(
        shape=Shape.DELIMITED,
        kind="gpu",
        delimiters=Delimiters(containers="", devices="|", fields="/", order=order),
    )

    assert read("nic/3/main/t1/x| / ///x", source_of(layout)) == (
        Claim(kind="nic", minor=3, container="main", template="t1"),
        Claim(kind="gpu"),
    )
    alone = Layout(shape=Shape.DELIMITED, delimiters=Delimiters(devices="", order=("device",)))
    assert read("a;b", source_of(alone)) == (
        Claim(kind="", device="a", container_index=0),
        Claim(kind="", device="b", container_index=1),
    )


@pytest.mark.parametrize(
    "text",
    ["GPU-1", "GPU-1,NVIDIA,x,30", "GPU-1,NVIDIA,3,-1", "GPU\x00,N,1,1", "a,b,1,1:" * 2000],
)
def test_delimited_text_that_is_not_as_it_should_be_is_refused(text):
    with pytest.raises(ValueError, match=r"^.+$") as refused:
        decode_claims(text, HAMI)
    assert str(refused.value).isprintable()


def test_list_of_devices_may_say_kind_vendor_and_container():
    text = '[{"uuid":"a","type":"npu","vendor":"huawei","container":"main","id":"no"},{"UUID":"b"}]'

    assert decode_claims(text, LISTED) == Claims(
        source="other",
        kinds=("npu", "gpu"),
        claims=(
            Claim(kind="npu", device="a", vendor="huawei", container="main"),
            Claim(kind="gpu", device="b"),
        ),
    )
    assert decode_claims("null", LISTED) is None
    with pytest.raises(ValueError, match=r"^the text: a list is expected$"):
        decode_claims("{}", LISTED)
    with pytest.raises(ValueError, match=r"^\[0\]\.type: a string is expected$"):
        decode_claims('[{"type":1}]', LISTED)


def test_devices_by_container_are_for_that_container():
    assert read('{"main":[{"id":"a"},{"id":"b"}],"other":null}', BY_CONTAINER) == (
        Claim(kind="gpu", device="a", container="main"),
        Claim(kind="gpu", device="b", container="main"),
    )
    with pytest.raises(ValueError, match=r"^\"main\"\[0\]: an object is expected$"):
        decode_claims('{"main":[1]}', BY_CONTAINER)


def test_field_without_a_name_is_not_looked_for():
    fields = Fields(minor="", vendor="", extension="", amounts="")
    layout = Layout(shape=Shape.LIST, kind="gpu", fields=fields)

    text = '[{"id":"a","":{},"minor":"x","vendor":1,"extension":2,"resources":3}]'
    assert read(text, source_of(layout)) == (Claim(kind="gpu", device="a"),)


# ------------------------------------------------------------------ hostile texts

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["1", "100m", "1e9999999", "9" * 400]),
)
KEYS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["gpu", "id", "ID", "minor", "resources", "extension", "vfs", "busID"]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
DEVICES = st.dictionaries(
    st.sampled_from(["id", "minor", "resources", "extension", "Vfs", "type"]), TREES, max_size=5
)
TEXTS = st.one_of(
    st.text(max_size=60),
    TREES.map(json.dumps),
    st.dictionaries(st.sampled_from(["gpu", "rdma", "x"]), st.lists(DEVICES, max_size=3)).map(
        json.dumps
    ),
    st.lists(DEVICES, max_size=3).map(json.dumps),
    st.text(alphabet='{}[],:"0e-nul;|/GPU ', max_size=60),
)
SOURCES = st.sampled_from([KOORDINATOR, HAMI, LISTED, BY_CONTAINER])


def read_or_refused(text: str, source: Source) -> tuple[Claims | None, str]:
    try:
        return decode_claims(text, source), ""
    except ValueError as refusal:
        return None, str(refusal)


@given(TEXTS, SOURCES)
@example('{"gpu":[null]}', KOORDINATOR)
@example('{"gpu":[{"resources":{"a/b":1e99999999999}}]}', KOORDINATOR)
def test_hostile_text_is_read_or_refused_in_one_safe_line(text, source):
    claims, refusal = read_or_refused(text, source)

    assert refusal.isprintable()
    assert len(refusal) < 1024
    for claim in claims.claims if claims is not None else ():
        words = (claim.kind, claim.device, claim.template, claim.container, claim.vendor)
        for word in (*words, *claim.functions, *claim.amounts):
            assert word.isascii()
            assert word.isprintable() or not word
            assert len(word) <= WORD_LENGTH_MAX
        assert all(0 <= amount < 2**63 for amount in claim.amounts.values())


def test_text_that_repeats_a_key_endlessly_costs_no_more_than_its_length():
    repeated = ",".join(['"extension":{"vfs":[]}'] * 2_700)
    text = '{"gpu":[{' + repeated + "}]}"

    assert len(text) > TEXT_LENGTH_MAX * 0.9
    assert read(text) == (Claim(kind="gpu", is_extended=True),)
