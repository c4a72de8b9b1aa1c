"""The modes in which pods of VMs are counted. `usage` says what each means for a pod."""

from enum import Enum


class VmiMode(Enum):
    """How pods of VMs are counted: `configName` of the AAQ object."""

    POD_USAGE = "VmiPodUsage"
    """The requests and limits of the launcher pod, as for any other pod."""
    VIRTUAL = "VirtualResources"
    """The guest's memory and vCPUs, under the native names."""
    DEDICATED = "DedicatedVirtualResources"
    """The guest's memory and vCPUs, under names that only VMs use, such as `cpu/vmi`."""
    GUEST_EFFECTIVE = "GuestEffectiveResources"
    """The compute container of the pod, without KubeVirt's memory overhead."""
    IGNORE = "IgnoreVmiCalculator"
    """VMs are not recognised."""
