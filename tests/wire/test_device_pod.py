"""The fields of pods that matter for devices; one broken pod does not affect the others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.pod import DeviceContainer, DevicePod, StatusDevice
from bursar.core.devices.source import KOORDINATOR, Delimiters, KindRule, Layout, Shape, Source
from bursar.wire.devices.pod import ITEMS_MAX, STATUS_DEVICES_MAX, DevicePodDecoder
from bursar.wire.storage.pod import decode_storage_pod
from support.builders.random_objects import pods

HAMI = Source(
    name="hami",
    annotation="hami.io/vgpu-devices-allocated",
    layout=Layout(shape=Shape.DELIMITED, kind="gpu", delimiters=Delimiters(order=("device",))),
    kinds={"gpu": KindRule(resource="nvidia.com/gpu")},
)
DECODER = DevicePodDecoder([KOORDINATOR, HAMI])

FULL = {
    "metadata": {
        "name": "train-0",
        "namespace": "ml",
        "uid": "7c1f",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T04:00:00Z",
        "annotations": {
            KOORDINATOR.annotation: '{"gpu":[{"minor":0,"id":"GPU-1"}]}',
            HAMI.annotation: "GPU-2:;",
            "other": None,
        },
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "node-1",
        "schedulerName": "koord-scheduler",
        "initContainers": [
            {"name": "setup", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            {"name": "proxy", "restartPolicy": "Always", "resources": None},
            {"name": "check"},
        ],
        "containers": [
            {
                "name": "main",
                "resources": {
                    "requests": {"cpu": "1", "koordinator.sh/rdma": "1500m", "a/b": "x"},
                    "limits": {"nvidia.com/gpu": 2, "koordinator.sh/rdma": "1", "c/d": "1e30"},
                },
            },
            {"name": "log"},
        ],
    },
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "main",
                "allocatedResourcesStatus": [
                    {
                        "name": "nvidia.com/gpu",
                        "resources": [
                            {"resourceID": "GPU-7", "health": "Healthy"},
                            {"resourceID": "GPU-8"},
                        ],
                    }
                ],
            },
            {"name": "log"},
        ],
        "initContainerStatuses": [
            {
                "name": "proxy",
                "allocatedResourcesStatus": [
                    {"name": "claim:net/nic", "resources": [{"resourceID": "n", "health": None}]}
                ],
            }
        ],
    },
}


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def annotated(text: str | None, key: str = KOORDINATOR.annotation) -> tuple[Claims, ...]:
    return DECODER.decode(body({"metadata": {"annotations": {key: text}}})).claims


def test_every_field_that_matters_is_read():
    assert DECODER.decode(body(FULL)) == DevicePod(
        namespace="ml",
        name="train-0",
        uid="7c1f",
        node="node-1",
        created="2026-01-02T03:04:05Z",
        scheduler="koord-scheduler",
        sidecars=(DeviceContainer(name="proxy"),),
        containers=(
            DeviceContainer(
                name="main",
                asks={"koordinator.sh/rdma": 2, "nvidia.com/gpu": 2, "c/d": 2**63 - 1},
            ),
            DeviceContainer(name="log"),
        ),
        init_containers=(
            DeviceContainer(name="setup", asks={"nvidia.com/gpu": 1}),
            DeviceContainer(name="check", sidecars_before=1),
        ),
        claims=(
            Claims(
                source="koordinator",
                kinds=("gpu",),
                claims=(Claim(kind="gpu", device="GPU-1", minor=0),),
            ),
            Claims(
                source="hami",
                kinds=("gpu",),
                claims=(Claim(kind="gpu", device="GPU-2", container_index=0),),
            ),
        ),
        status_devices=(
            StatusDevice(container="proxy", resource="claim:net/nic", device="n"),
            StatusDevice(
                container="main", resource="nvidia.com/gpu", device="GPU-7", health="Healthy"
            ),
            StatusDevice(container="main", resource="nvidia.com/gpu", device="GPU-8"),
        ),
        is_terminating=True,
    )


def test_pod_with_nothing_in_it_is_read():
    assert DECODER.decode(b"{}") == DevicePod(namespace="", name="")
    assert DECODER.decode(b'{"metadata":{},"spec":{},"status":{}}') == DECODER.decode(b"{}")


@pytest.mark.parametrize(
    ("phase", "is_terminal"),
    [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), (None, False)],
)
def test_pod_that_ended_is_known_by_its_phase(phase, is_terminal):
    assert DECODER.decode(body({"status": {"phase": phase}})).is_terminal == is_terminal


def test_unreadable_annotation_is_told_and_the_pod_is_still_read():
    assert annotated('{"gpu":[null]}') == (
        Claims(source="koordinator", problem='"gpu"[0]: an object is expected'),
    )
    assert annotated("")[0].problem.startswith("not JSON: ")
    assert annotated(None)[0].problem.startswith("not JSON: ")


def test_annotation_that_is_null_is_as_good_as_none():
    assert annotated("null") == ()
    assert annotated("{}", key="unrelated") == ()


def test_pod_that_is_as_it_was_is_not_read_again():
    decoder = DevicePodDecoder([HAMI])

    def listed(*names: str) -> list[DevicePod]:
        pods = [{"metadata": {"name": name}} for name in names]
        return list(decoder.decode_list(body({"kind": "PodList", "items": pods})))

    a, b = listed("a", "b")

    assert listed("b", "a", "c")[:2] == [b, a]
    assert listed("b", "a")[0] is b
    assert listed("c") != [a]
    assert listed("a")[0] is not a, "it was not in the list before"


def test_list_of_another_kind_is_refused():
    with pytest.raises(ValueError, match=r'^not a PodList: the kind is "Status"$'):
        list(DECODER.decode_list(body({"kind": "Status", "items": []})))


def test_one_text_of_two_sources_is_not_mixed_up():
    other = Source(
        name="other",
        annotation="other/key",
        layout=Layout(shape=Shape.DELIMITED, kind="x", delimiters=Delimiters(order=("device",))),
        kinds={},
    )
    decoder = DevicePodDecoder([HAMI, other])
    pod = decoder.decode(
        body({"metadata": {"annotations": {HAMI.annotation: "a", "other/key": "a"}}})
    )

    assert [(each.source, each.kinds) for each in pod.claims] == [
        ("hami", ("gpu",)),
        ("other", ("x",)),
    ]


def test_status_cannot_state_devices_without_end():
    resources = [{"resourceID": str(number)} for number in range(STATUS_DEVICES_MAX + 5)]
    status = {
        "containerStatuses": [
            {"name": "c", "allocatedResourcesStatus": [{"name": "a/b", "resources": resources}]}
        ]
    }

    assert len(DECODER.decode(body({"status": status})).status_devices) == STATUS_DEVICES_MAX


@pytest.mark.parametrize("items", [None, [], "absent"])
def test_node_without_pods_has_an_empty_list(items):
    listed = {"kind": "PodList"} if items == "absent" else {"kind": "PodList", "items": items}

    assert list(DECODER.decode_list(body(listed))) == []


def test_item_that_is_no_pod_does_not_lose_the_others():
    items = [{"metadata": {"name": "a"}}, None, {"spec": 1}, 7, {"metadata": {"name": "b"}}]

    assert [pod.name for pod in DECODER.decode_list(body({"kind": "PodList", "items": items}))] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"x", b'{"items":{}}', b'{"items":[}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        list(DECODER.decode_list(text))


def test_list_without_end_is_refused():
    with pytest.raises(ValueError, match=r"^a list of more than"):
        list(DECODER.decode_list(body({"kind": "PodList", "items": [{}] * (ITEMS_MAX + 1)})))


@given(pods())
def test_pod_of_any_shape_is_read(raw):
    try:
        pod = DECODER.decode(body(raw))
    except ValueError:
        return
    assert pod.name == (raw.get("metadata") or {}).get("name", pod.name)


@given(st.dictionaries(st.just(KOORDINATOR.annotation), st.text(max_size=40), min_size=1))
def test_no_annotation_makes_its_pod_unreadable(annotations):
    pod = DECODER.decode(body({"metadata": {"name": "p", "annotations": annotations}}))

    assert pod.name == "p"
    assert all(each.problem.isprintable() for each in pod.claims)


# ------------------------------------------------------------------ local storage


def test_local_storage_is_decoded_if_it_is_asked_for():
    body = b'{"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}}'
    assert DevicePodDecoder([]).decode(body).storage is None
    found = DevicePodDecoder([], storage=decode_storage_pod).decode(body).storage
    assert found is not None
    assert found.key == ("shop", "web")


def test_a_pod_whose_storage_cannot_be_read_keeps_its_devices():
    body = (
        b'{"metadata": {"name": "web"}, "spec": {"volumes": '
        b'[{"name": "cache", "emptyDir": {"sizeLimit": "much"}}]}}'
    )
    pod = DevicePodDecoder([], storage=decode_storage_pod).decode(body)
    assert (pod.name, pod.storage) == ("web", None)
