"""The ConfigMaps that declare capacity."""

from typing import Final

CAPACITY_CONFIG: Final = "bursar-capacity"
"""The ConfigMap with Bursar's own declarations."""
PRESET_CONFIG: Final = "peer-pods-cm"
"""The ConfigMap with the settings of upstream's peer pods."""
PRESET_NAMESPACE: Final = "confidential-containers-system"
"""The namespace in which upstream's peer pods are usually installed."""
