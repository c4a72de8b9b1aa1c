"""Names of the extender's objects."""

from typing import Final

EXTENDER: Final = "bursar-extender"
"""The extender's Deployment, service account, Lease, Service, EndpointSlice and component."""
PORT: Final = 8443
PORT_NAME: Final = "https"
URL_PATH: Final = "/scheduler"
"""What the paths of all verbs begin with."""
SIGNAL: Final = "bursar-extender-signal"
"""The CSIStorageCapacity that the extender changes to have the scheduler try refused pods again."""
SCHEDULER_CA_CONFIG: Final = "bursar-scheduler-ca"
SCHEDULER_USER: Final = "system:kube-scheduler"
"""The common name of kube-scheduler's certificate in clusters of kubeadm."""
