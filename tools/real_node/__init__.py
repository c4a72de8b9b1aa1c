"""A real node for the control plane: kubelet, containerd, runc and kube-proxy on this machine.

`cluster.py` starts one together with its control plane; `node.py` has the node itself.
"""


class RealNodeError(Exception):
    """A node that cannot be started, used or removed; the first line says why."""
