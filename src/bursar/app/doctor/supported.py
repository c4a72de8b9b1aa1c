"""Which versions of Kubernetes Bursar supports."""

from typing import Final

OLDEST: Final = 32
"""The oldest minor version of Kubernetes 1 that Bursar supports."""
NEWEST: Final = 36
"""The newest minor version that Bursar is tested on."""
MUTATING_POLICIES_SINCE: Final = 36
