"""Multus and dcgm-exporter read a PodResources socket by rules of their own; here are the rules.

Multus must get its devices or a pod does not start. dcgm-exporter takes any trouble as "no
labels". Both are held against kubelet's server first, so that what they say of ours has a meaning.
"""

import pytest

from support.devices.kubelet_server import (
    Claim,
    ClaimDevice,
    Container,
    Contents,
    Device,
    Pod,
)

pytestmark = pytest.mark.integration

RDMA = "koordinator.sh/rdma"
GPU = "nvidia.com/gpu"


def holding(name: str, *ids: str, resource: str = GPU, container: str = "main") -> Pod:
    return Pod(name, [Container(container, [Device(resource, one) for one in ids])])


class TestMultus:
    async def test_the_client_builds(self, kubelet, client):
        told = await client.multus(kubelet.socket, "default", "p")
        assert (told.source, told.code, told.error) == ("socket", "OK", "")

    async def test_a_missing_socket_leads_to_the_checkpoint(self, client, tmp_path):
        gone = tmp_path / "gone"
        told = await client.multus(gone, "default", "p", checkpoint=str(gone))
        assert told.source == "checkpoint"
        assert told.error.startswith(f"getPodEntries: error reading file {gone}")

    async def test_a_checkpoint_that_is_there_hides_the_missing_socket(self, client, tmp_path):
        table = tmp_path / "table"
        table.write_text("{}")
        told = await client.multus(tmp_path / "gone", "default", "p", checkpoint=str(table))
        assert (told.source, told.error, told.resources) == ("checkpoint", "", {})

    async def test_a_pod_maps_to_two_ids_whatever_the_container(self, kubelet, client):
        containers = [
            Container("main", [Device(RDMA, "0000:01:00.3"), Device("intel.com/nic", "eth-7")]),
            Container("second", [Device(RDMA, "0000:01:00.2")]),
        ]
        await kubelet.show(Pod("p", containers), holding("q", "0000:01:00.4", resource=RDMA))
        told = await client.multus(kubelet.socket, "default", "p")
        assert told.resources == {
            RDMA: ["0000:01:00.2", "0000:01:00.3"],
            "intel.com/nic": ["eth-7"],
        }

    async def test_networks_get_ids_in_order_until_there_are_no_more(self, kubelet, client):
        await kubelet.show(holding("p", "c", "a", "b", resource=RDMA))
        told = await client.multus(kubelet.socket, "default", "p", networks=[RDMA] * 4)
        assert (told.networks, told.error) == (["a", "b", "c", ""], "")

    async def test_a_garbage_socket_is_an_error(self, client, tmp_path):
        garbage = tmp_path / "kubelet.sock"
        garbage.write_text("no socket")
        told = await client.multus(garbage, "default", "p")
        assert (told.source, told.code) == ("socket", "UNAVAILABLE")

    @pytest.mark.parametrize(("namespace", "name"), [("default", ""), ("", "p")])
    async def test_an_empty_name_or_namespace_is_an_error(self, kubelet, client, namespace, name):
        told = await client.multus(kubelet.socket, namespace, name)
        assert told.error == "GetPodResourceMap: Pod name or namespace cannot be empty"

    async def test_an_unknown_pod_has_an_empty_map_and_no_error(self, kubelet, client):
        await kubelet.show(holding("p", "a", resource=RDMA))
        told = await client.multus(kubelet.socket, "default", "other")
        assert (told.resources, told.error) == ({}, "")

    @pytest.mark.parametrize(("mebibytes", "code"), [(15, "OK"), (17, "RESOURCE_EXHAUSTED")])
    async def test_it_takes_up_to_16_mebibytes(self, kubelet, client, mebibytes, code):
        await kubelet.show(holding("p", *["x" * 1024] * (1024 * mebibytes)))
        assert (await client.multus(kubelet.socket, "default", "p")).code == code


class TestDcgm:
    @pytest.mark.parametrize(
        ("id", "names", "share"),
        [
            ("GPU-1", {"GPU-1"}, ""),
            ("GPU-1::2", {"GPU-1", "GPU-1::2"}, "2"),
            ("MIG-1", {"MIG-1", "1", "0-3"}, ""),
            ("MIG-1::4", {"MIG-1::4", "1", "0-3"}, "4"),
            ("MIG-unknown", {"MIG-unknown", "unknown"}, ""),
            ("nvidia0/gi3", {"nvidia0/gi3", "0-3"}, ""),
            ("nvidia0/gi3/vgpu1", {"nvidia0/gi3/vgpu1", "0-3"}, "1"),
            ("nvidia0/vgpu1", {"nvidia0/vgpu1", "nvidia0"}, "1"),
        ],
    )
    @pytest.mark.parametrize("virtual", [False, True])
    async def test_forms_of_ids(self, kubelet, client, id, names, share, virtual):
        await kubelet.show(holding("p", id))
        told = await client.dcgm(kubelet.socket, virtual_gpus=virtual, instances={"MIG-1": "0-3"})
        user = {"namespace": "default", "pod": "p", "container": "main"}
        if virtual and share:
            user["vgpu"] = share
        assert told.mapping == {name: [user] for name in names}

    @pytest.mark.parametrize(
        ("resource", "wanted"),
        [
            (GPU, True),
            ("nvidia.com/mig-1g.10gb", True),
            ("example.com/gpu", True),
            ("nvidia.com/gpu.shared", False),
            (RDMA, False),
            ("", False),
        ],
    )
    async def test_resource_names(self, kubelet, client, resource, wanted):
        await kubelet.show(holding("p", "GPU-1", resource=resource))
        told = await client.dcgm(kubelet.socket, ["GPU-1"], resource_names=["example.com/gpu"])
        assert told.labels == [("GPU-1", "default/p/main" if wanted else "")]

    async def test_the_last_pod_on_a_device_wins(self, kubelet, client):
        await kubelet.show(holding("first", "GPU-1"), holding("last", "GPU-1"))
        told = await client.dcgm(kubelet.socket, ["GPU-1"])
        assert told.labels == [("GPU-1", "default/last/main")]

    async def test_virtual_gpus_give_each_pod_its_series(self, kubelet, client):
        await kubelet.show(holding("a", "GPU-1::0"), holding("b", "GPU-1::1"))
        told = await client.dcgm(kubelet.socket, ["GPU-1", "GPU-2"], virtual_gpus=True)
        assert told.labels == [
            ("GPU-1", "default/a/main#0"),
            ("GPU-1", "default/b/main#1"),
            ("GPU-2", ""),
        ]

    async def test_shared_gpus_change_hands_with_the_order_of_pods(self, kubelet, client):
        pods = [holding(f"p{number}", "GPU-1") for number in range(20)]
        await kubelet.replace(Contents(pods=pods, unordered=True))
        seen = {tuple((await client.dcgm(kubelet.socket, ["GPU-1"])).labels) for _ in range(9)}
        assert len(seen) > 1

    async def test_device_names_find_device_names_only(self, kubelet, client):
        await kubelet.show(holding("by-uuid", "GPU-1"), holding("by-name", "nvidia1"))
        told = await client.dcgm(kubelet.socket, ["GPU-1", "GPU-2"], id_type="device-name")
        assert told.labels == [("GPU-1", ""), ("GPU-2", "default/by-name/main")]

    async def test_a_part_of_a_gpu_is_found_by_its_instance(self, kubelet, client):
        await kubelet.show(holding("p", "MIG-7", resource="nvidia.com/mig-1g.10gb"))
        told = await client.dcgm(
            kubelet.socket,
            gpus=[{"index": 0, "uuid": "GPU-1", "instance": 3}],
            instances={"MIG-7": "0-3"},
        )
        assert told.labels == [("GPU-1", "default/p/main")]

    @pytest.mark.parametrize(
        ("driver", "dra", "label"),
        [
            ("gpu.nvidia.com", True, "default/p/main"),
            ("gpu.nvidia.com", False, ""),
            ("other.com", True, ""),
        ],
    )
    async def test_claims_count_where_asked_for(self, kubelet, client, driver, dra, label):
        claim = Claim("c", [ClaimDevice(driver, "node-1", "gpu-0")])
        await kubelet.show(Pod("p", [Container("main", claims=[claim])]))
        told = await client.dcgm(
            kubelet.socket, ["GPU-1"], dra=dra, claimable={"node-1/gpu-0": {"uuid": "GPU-1"}}
        )
        assert told.labels == [("GPU-1", label)]

    async def test_a_native_sidecar_is_a_container_like_others(self, kubelet, client):
        proxy = Container("proxy", [Device(GPU, "GPU-1")], restartable=True)
        await kubelet.show(Pod("p", init=[proxy]))
        told = await client.dcgm(kubelet.socket, ["GPU-1"])
        assert told.labels == [("GPU-1", "default/p/proxy")]

    async def test_no_socket_means_no_labels_and_no_error(self, client, tmp_path):
        told = await client.dcgm(tmp_path / "gone", ["GPU-1"])
        assert (told.socket, told.error, told.labels) == (False, "", [("GPU-1", "")])

    async def test_an_error_costs_the_labels(self, kubelet, client):
        await kubelet.stop()
        told = await client.dcgm(kubelet.socket, ["GPU-1"])
        assert (told.code, told.labels) == ("UNAVAILABLE", [("GPU-1", "")])

    @pytest.mark.parametrize(("mebibytes", "code"), [(3, "OK"), (5, "RESOURCE_EXHAUSTED")])
    async def test_it_takes_up_to_4_mebibytes(self, kubelet, client, mebibytes, code):
        await kubelet.show(holding("p", *["x" * 1024] * (1024 * mebibytes), resource="other"))
        assert (await client.dcgm(kubelet.socket)).code == code
