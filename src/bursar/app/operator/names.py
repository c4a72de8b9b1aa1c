"""Names of the operator in a cluster: AAQ's, so that the two never act at the same time."""

from typing import Final

OPERATOR: Final = "aaq-operator"
"""The operator's service account, Deployment, Service and event component."""
LEASE: Final = "aaq-operator-leader-election-helper"
