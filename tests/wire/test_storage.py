"""The kubelet's summary and the storage of pods, decoded."""

import json

import pytest

from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.summary import PodSummary, Summary
from bursar.core.storage.usage import ContainerUse
from bursar.wire.storage import summary
from bursar.wire.storage.pod import decode_placed_pod, decode_storage_pod
from bursar.wire.storage.summary import decode_summary


def decoded(**fields):
    return decode_summary(json.dumps(fields).encode())


def sized(capacity, available, **more):
    return {"capacityBytes": capacity, "availableBytes": available, **more}


def test_a_summary_has_filesystems_containers_and_volumes():
    found = decoded(
        node={
            "nodeName": "n1",
            "fs": sized(100, 60, inodes=10, inodesFree=4),
            "runtime": {"imageFs": sized(100, 60, inodes=10, inodesFree=4)},
        },
        pods=[
            {
                "podRef": {"name": "web", "namespace": "shop", "uid": "u1"},
                "containers": [
                    {"name": "app", "rootfs": {"usedBytes": 7}, "logs": {"usedBytes": 3}},
                    {"name": "starting"},
                ],
                "volume": [{"name": "cache", "usedBytes": 5}, {"name": "x"}, {"usedBytes": 1}],
                "ephemeral-storage": {"usedBytes": 15},
            },
            {"podRef": {"name": "no-uid"}},
            {},
        ],
    )
    assert (found.node, found.nodefs) == (
        "n1",
        Filesystem(capacity=100, available=60, inodes=10, inodes_free=4),
    )
    assert not found.has_image_filesystem
    (pod,) = found.pods.values()
    assert (pod.namespace, pod.name, pod.ephemeral) == ("shop", "web", 15)
    assert pod.containers == {"app": ContainerUse(writable=7, logs=3), "starting": ContainerUse()}
    assert pod.volumes == {"cache": 5}


def test_an_image_filesystem_has_another_size():
    node = {"fs": sized(100, 60), "runtime": {"imageFs": sized(200, 60)}}
    assert decoded(node=node).has_image_filesystem
    assert not decoded(node={"fs": sized(100, 60), "runtime": {}}).has_image_filesystem
    assert not decoded(node={"runtime": {"imageFs": sized(100, 60)}}).has_image_filesystem


def test_a_pod_without_figures_has_none():
    pod = PodSummary(namespace="shop", name="web", uid="u1")
    assert (pod.containers, pod.volumes, pod.ephemeral) == ({}, {}, None)


def test_sizes_that_cannot_be_are_not_known():
    found = decoded(node={"fs": sized(-1, 5)}, pods=[])
    assert found.nodefs is None
    assert decoded(node={"fs": sized(5, 2**64)}) == Summary()


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"node": {"fs": {"inodes": "many"}}}'])
def test_other_documents_are_refused(body):
    with pytest.raises(ValueError, match=r".+"):
        decode_summary(body)


def test_more_pods_than_a_node_can_have_are_refused():
    with pytest.raises(ValueError, match="summary"):
        decoded(node={}, pods=[{}] * (summary.PODS_MAX + 1))


def test_a_pod_has_its_limits_and_whether_it_has_a_user_namespace():
    body = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1"},
        "spec": {
            "hostUsers": False,
            "containers": [
                {"name": "app", "resources": {"limits": {"ephemeral-storage": "1Gi"}}},
            ],
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "5Mi"}}],
        },
    }
    pod = decode_storage_pod(json.dumps(body).encode())
    assert (pod.key, pod.uid, str(pod.limit)) == (("shop", "web"), "u1", "1Gi")
    assert str(pod.volumes[0].size_limit) == "5Mi"
    assert pod.has_user_namespace
    assert decode_placed_pod(json.dumps(body).encode()) == ("", pod)
    body["spec"]["nodeName"] = "n1"
    assert decode_placed_pod(json.dumps(body).encode()) == ("n1", pod)
    assert decode_placed_pod(b"{}")[0] == ""
    del body["spec"]["hostUsers"]
    assert not decode_storage_pod(json.dumps(body).encode()).has_user_namespace
    assert not decode_storage_pod(b"{}").has_user_namespace
