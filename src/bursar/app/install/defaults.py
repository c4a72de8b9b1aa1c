"""Defaults of options about what is installed."""

from typing import Final

from bursar.core.model.quantity import Quantity

KOORDINATORS_SCHEDULER: Final = "system:serviceaccount:koordinator-system:koord-scheduler"
"""The account of Koordinator's scheduler, as its chart installs it."""
KUBEVIRT_NAMESPACE: Final = "kubevirt"
"""Where KubeVirt is installed by default. OpenShift Virtualization uses `openshift-cnv`."""
OVERHEAD_CPU: Final = Quantity.parse("250m")
OVERHEAD_MEMORY: Final = Quantity.parse("120Mi")
"""Upstream's values for what a peer pod uses on the worker. They are not measured."""
