"""`resourceFieldRef`: how a container is shown its own requests and limits.

Kubelet computes the shown value from the stored pod, so it does not see what a rewrite removed.
For a removed limit kubelet shows the worker's allocatable amount, for a removed request or a
removed amount of huge pages it shows 0.
"""

from typing import NamedTuple

from bursar.core.model.names import is_hugepages
from bursar.core.model.pod import ResourceRequirements


class ResourceField(NamedTuple):
    """One `resourceFieldRef` of a pod's environment variables and downward API volumes."""

    container: str
    side: str
    """`requests` or `limits`."""
    resource: str

    def is_in(self, resources: ResourceRequirements) -> bool:
        """Whether these resources have the amount that the field refers to."""
        if self.side == "limits":
            return self.resource in resources.limits
        return self.side == "requests" and self.resource in resources.requests

    def __str__(self) -> str:
        is_node_size = self.side == "limits" and not is_hugepages(self.resource)
        seen = "what the worker has" if is_node_size else "0"
        return f"{self.side}.{self.resource} of container {self.container} shows {seen}"
