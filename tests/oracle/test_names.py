"""Resource names: every question upstream asks about one, and every complaint about spelling."""

from hypothesis import strategies as st

from bursar.core.model import names
from support.builders.random_objects import HOSTILE_NAME, KNOWN

STANDARD = st.sampled_from(
    ["cpu", "memory", "ephemeral-storage", "storage", "pods", "resourcequotas", "services"]
    + ["replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"]
    + ["services.nodeports", "services.loadbalancers", "requests.cpu", "limits.cpu"]
    + ["requests.memory", "limits.memory", "requests.ephemeral-storage"]
    + ["limits.ephemeral-storage", "requests.storage", "limits.storage", "requests.hugepages-2Mi"]
    + ["limits.hugepages-2Mi", "requests.requests.cpu", "attachable-volumes-aws-ebs"]
)
EDGES = st.sampled_from(
    ["a" * 63, "a" * 64, "x/" + "a" * 63, "x/" + "a" * 64, "é" * 32, "é" * 31, "a.b", "a-", "-a"]
    + ["d" * 244 + "/x", "d" * 245 + "/x", "d" * 253 + "/x", "d" * 254 + "/x", "/", "//", "a//b"]
    + ["kubernetes.io/", "/kubernetes.io/x", "requests.a.com/x", "a\n", "a.com\n/x", "a.com/x\n"]
    + [
        "a" * 60 + ".bc",
        "a" * 63 + ".b",
        "A.com/x",
        "a..b/x",
        "a_b/x",
        "hugepages-",
        "\u017f.com/x",
    ]
)
PARTS = st.text("abAB01.-_", max_size=12) | st.text("a.-", max_size=8)
SPELT = (
    PARTS
    | st.tuples(PARTS, PARTS).map("/".join)
    | st.tuples(st.sampled_from(["kubernetes.io", "x.kubernetes.io", "example.com"]), PARTS).map(
        "/".join
    )
    | st.tuples(
        st.sampled_from(["requests.", "hugepages-", "limits.", "attachable-volumes-"]), PARTS
    ).map("".join)
)
NAMES = STANDARD | EDGES | SPELT | HOSTILE_NAME | st.sampled_from(list(KNOWN))


def view(name: str) -> dict[str, object]:
    return {
        "native": names.is_native(name),
        "prefixedNative": names.NATIVE_DOMAIN in name,
        "extended": names.is_extended(name),
        "hugePages": names.is_hugepages(name),
        "attachableVolume": names.is_attachable_volume(name),
        "integer": names.is_whole(name),
        "overcommitAllowed": names.may_overcommit(name),
        "scalar": names.is_scalar(name),
        "podLevel": names.is_pod_level(name),
        "standard": names.is_standard(name),
        "standardContainer": names.is_standard_for_containers(name),
        "qualifiedErrors": list(names.qualified_name_errors(name)),
        "labelErrors": list(names.label_errors(name)),
    }


def test_every_question_about_a_name_gets_the_same_answer(agree):
    agree("names", names=NAMES, ours=view, examples=60)
