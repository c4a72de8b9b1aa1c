"""What the programs of a real node are told: containerd, the network plugins, kubelet, kube-proxy.

The paths are those inside the node. Everything that would reach beyond it is turned off here:
limits of the whole machine's connection tracking, scores of the kernel's OOM killer, iptables.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_node.images import PAUSE
from real_node.network import NodeNetwork

KUBELET_FOLDER = "/var/lib/kubelet"
CONTAINERD_FOLDER = "/var/lib/containerd"
CAP_SYS_RESOURCE = 24
NEVER = "0%"


@dataclass(frozen=True)
class NodePlaces:
    """Files and folders that the programs of a node are told of."""

    bin_folder: Path
    cni_programs: Path
    containerd_socket: Path
    folder: Path


@dataclass(frozen=True)
class KernelAbilities:
    """What the kernel of a node can do for its containers."""

    negative_oom_scores: bool = True
    hugetlb: bool = True


def machine_abilities() -> KernelAbilities:
    """What this machine's kernel can do. Few machines have a cgroup for hugepages."""
    return KernelAbilities(negative_oom_scores=_has_capability(CAP_SYS_RESOURCE), hugetlb=False)


def containerd_config(places: NodePlaces, runc: Path, kernel: KernelAbilities) -> str:
    """The content of containerd's config.toml."""
    return f"""\
version = 3
root = "{CONTAINERD_FOLDER}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{places.containerd_socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{CONTAINERD_FOLDER}/opt"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
disable_hugetlb_controller = {json.dumps(not kernel.hugetlb)}
restrict_oom_score_adj = {json.dumps(not kernel.negative_oom_scores)}

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{places.cni_programs}"]
conf_dir = "{places.folder / "cni"}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"""


def cni_config(network: NodeNetwork) -> dict[str, Any]:
    """Every pod gets a link of its own, so that all packets pass the rules of kube-proxy.

    On a bridge, the answer of one pod to another would pass them by.
    """
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": network.pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipam": addresses}],
    }


def kubelet_config(
    places: NodePlaces, cgroup_root: str, authority: Path, certificate: Path, key: Path
) -> dict[str, Any]:
    # Image garbage collection and evictions look at the disk and memory of the whole machine.
    pressure = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{places.containerd_socket}",
        "volumePluginDir": f"{KUBELET_FOLDER}/volumeplugins",
        "resolvConf": str(places.folder / "resolv.conf"),
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "imageGCHighThresholdPercent": 100,
        "volumeStatsAggPeriod": "5s",  # or an emptyDir may be too large for a minute
        "evictionHard": dict.fromkeys((*pressure, "imagefs.inodesFree"), NEVER),
    }


def kube_proxy_config(network: NodeNetwork, node: str, kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": node,
        "mode": "nftables",
        "clusterCIDR": network.pod_range,
        "detectLocalMode": "ClusterCIDR",
        "oomScoreAdj": 0,
        # Zero leaves the kernel's settings alone.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def init_settings(
    places: NodePlaces, node: str, programs: Mapping[str, list[str]]
) -> dict[str, Any]:
    """What `real_node/init.py` reads."""
    return {
        "node": node,
        "folder": str(places.folder),
        "path": str(places.bin_folder),
        "containerd_socket": str(places.containerd_socket),
        "binds": {
            str(places.folder / "kubelet"): KUBELET_FOLDER,
            str(places.folder / "containerd"): CONTAINERD_FOLDER,
        },
        "programs": dict(programs),
    }


def _has_capability(number: int) -> bool:
    [line] = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("CapEff:")
    ]
    return bool(int(line.split()[1], 16) >> number & 1)
