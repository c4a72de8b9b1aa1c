"""The network between this machine and a real node: one bridge, and routes to pods and Services.

Each network has a number of its own. A socket without a file holds the number, so the kernel frees
it when the process ends, and another process that takes the number removes what was left of it.
"""

import os
import socket
import subprocess
from collections.abc import Sequence

from real_node import RealNodeError

NETWORKS = 64
"""From 198.18.0.0/16, which is reserved for tests of networks, with four /24 for each."""


class NodeNetwork:
    """Addresses of one node, of its pods and of the Services, and the links that lead there.

    `claim()` makes the bridge, so that an API server can listen on `host_address` before there
    is a node. `connect()` joins a network namespace to it, `connect_tap()` a virtual machine.
    `release()` removes everything.
    """

    def __init__(self, number: int, held: socket.socket) -> None:
        self.number = number
        self._held = held
        self._third = 4 * number
        self._bridge = f"bursar{number}"
        self._link = f"bursar{number}n"

    @classmethod
    def claim(cls) -> "NodeNetwork":
        for number in range(NETWORKS):
            held = _hold(number)
            if held is None:
                continue
            network = cls(number, held)
            try:
                network._remove_links()
                if not network._is_taken_by_others():
                    network._make_bridge()
                    return network
            except BaseException:
                network.release()
                raise
            held.close()
        raise RealNodeError(f"none of the {NETWORKS} networks in 198.18.0.0/16 is free")

    @property
    def host_address(self) -> str:
        return f"198.18.{self._third}.1"

    @property
    def node_address(self) -> str:
        return f"198.18.{self._third}.2"

    @property
    def pod_range(self) -> str:
        return f"198.18.{self._third + 1}.0/24"

    @property
    def service_range(self) -> str:
        return f"198.18.{self._third + 2}.0/24"

    def connect(self, pid: int) -> None:
        """Join the network namespace of a process, and route pods and Services through it."""
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", self._link, "master", self._bridge, "up")
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
        _ip("link", "set", "lo", "up", inside=inside)
        _ip("addr", "add", f"{self.node_address}/24", "dev", "eth0", inside=inside)
        _ip("link", "set", "eth0", "up", inside=inside)
        _ip("route", "add", "default", "via", self.host_address, inside=inside)
        self._route()

    def connect_tap(self) -> str:
        """Make a tap device for a virtual machine, with routes through it; returns its name."""
        _ip("tuntap", "add", self._link, "mode", "tap")
        _ip("link", "set", self._link, "master", self._bridge, "up")
        self._route()
        return self._link

    def disconnect(self) -> None:
        """Remove the link to the node. The bridge keeps its address, so servers keep listening."""
        _remove_link(self._link)

    def release(self) -> None:
        self._remove_links()
        self._held.close()

    def _route(self) -> None:
        """Lead packets for pods and Services to the node."""
        for routed in (self.pod_range, self.service_range):
            _ip("route", "replace", routed, "via", self.node_address, "dev", self._bridge)

    def _remove_links(self) -> None:
        for name in (self._link, self._bridge):
            _remove_link(name)

    def _make_bridge(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.host_address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")

    def _is_taken_by_others(self) -> bool:
        return bool(_ip("route", "show", "table", "all", "root", f"198.18.{self._third}.0/22"))


def _hold(number: int) -> socket.socket | None:
    """Take the number for this process, in this network namespace; None if it is taken."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0bursar-real-node-{number}")
    except OSError:
        held.close()
        return None
    return held


def _remove_link(name: str) -> None:
    """Remove a link if there is one. The kernel also removes it, some time after the node ended."""
    try:
        _ip("link", "delete", name)
    except RealNodeError:
        if name in (known for _, known in socket.if_nameindex()):
            raise


def _ip(*arguments: str, inside: Sequence[str] = ()) -> str:
    done = subprocess.run(
        [*inside, "ip", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise RealNodeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
