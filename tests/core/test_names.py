"""Resource names: their kinds, and what is said about a bad spelling."""

import pytest

from bursar.core.model import names
from bursar.core.model.quantity import Quantity

PART_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("cpu", {"native", "overcommit", "pod_level", "standard", "for_containers"}),
        ("memory", {"native", "overcommit", "pod_level", "standard", "for_containers"}),
        ("ephemeral-storage", {"native", "overcommit", "standard", "for_containers"}),
        ("storage", {"native", "overcommit", "standard"}),
        ("pods", {"native", "overcommit", "standard", "whole"}),
        ("services.nodeports", {"native", "overcommit", "standard", "whole"}),
        ("requests.cpu", {"native", "overcommit", "standard"}),
        ("limits.ephemeral-storage", {"native", "overcommit", "standard"}),
        ("limits.storage", {"native", "overcommit"}),
        ("requests.hugepages-2Mi", {"native", "overcommit", "standard"}),
        ("limits.hugepages-2Mi", {"native", "overcommit"}),
        (
            "hugepages-2Mi",
            {"native", "hugepages", "scalar", "pod_level", "standard", "for_containers"},
        ),
        ("attachable-volumes-csi", {"native", "overcommit", "attachable", "scalar"}),
        ("gpu", {"native", "overcommit"}),
        ("example.com/foo", {"extended", "whole", "scalar"}),
        ("kubernetes.io/foo", {"native", "overcommit", "scalar"}),
        ("notkubernetes.io/foo", {"native", "overcommit", "scalar"}),
        ("requests.foo.com/x", set()),
        ("a/b/c", set()),
    ],
)
def test_kinds_of_names(name, kinds):
    found = {
        "native": names.is_native(name),
        "extended": names.is_extended(name),
        "hugepages": names.is_hugepages(name),
        "attachable": names.is_attachable_volume(name),
        "whole": names.is_whole(name),
        "overcommit": names.may_overcommit(name),
        "scalar": names.is_scalar(name),
        "pod_level": names.is_pod_level(name),
        "standard": names.is_standard(name),
        "for_containers": names.is_standard_for_containers(name),
    }

    assert {kind for kind, holds in found.items() if holds} == kinds


def test_extended_name_leaves_room_for_the_quota_prefix():
    longest = "d" * (253 - len("requests."))

    assert names.is_extended(f"{longest}/x")
    assert not names.is_extended(f"{longest}d/x")
    assert names.qualified_name_errors(f"{longest}d/x") == ()


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("cpu", ()),
        ("example.com/My_name.1", ()),
        ("a" * 63, ()),
        ("a" * 64, ("name part must be no more than 63 bytes",)),
        (
            "é" * 32,
            ("name part must be no more than 63 bytes", f"name part {PART_RULE}"),
        ),
        ("", ("name part must be non-empty", f"name part {PART_RULE}")),
        ("-a", (f"name part {PART_RULE}",)),
        ("a\n", (f"name part {PART_RULE}",)),
        ("x/", ("name part must be non-empty", f"name part {PART_RULE}")),
        ("/x", ("prefix part must be non-empty",)),
        ("Bad_/x", (f"prefix part {SUBDOMAIN_RULE}",)),
        ("d" * 254 + "/x", ("prefix part must be no more than 253 bytes",)),
        (
            "a/b/c",
            (
                (
                    f"a valid label key {PART_RULE} with an optional DNS subdomain prefix and '/'"
                    " (e.g. 'example.com/MyName')"
                ),
            ),
        ),
    ],
)
def test_qualified_name_errors(name, errors):
    assert names.qualified_name_errors(name) == errors


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("gpu-0", ()),
        ("a" * 64, ("must be no more than 63 characters",)),
        ("a.b", ("must not contain dots",)),
        ("Bad", (LABEL_RULE,)),
        ("", (LABEL_RULE,)),
    ],
)
def test_label_errors(name, errors):
    assert names.label_errors(name) == errors


def test_half_a_surrogate_pair_is_measured_and_refused():
    assert names.qualified_name_errors("\ud800" * 22) == (
        "name part must be no more than 63 bytes",
        f"name part {PART_RULE}",
    )


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("hugepages-2Mi", "2Mi"),
        ("hugepages-1e2", "100"),
        ("hugepages-1000E", "1000E"),
        ("hugepages-", None),
        ("hugepages-xyz", None),
        ("hugepages-0", None),
        ("hugepages--2Mi", None),
        ("hugepages-1500m", None),
    ],
)
def test_page_size_is_a_positive_whole_number(name, size):
    assert names.page_size(name) == (None if size is None else Quantity.parse(size))
