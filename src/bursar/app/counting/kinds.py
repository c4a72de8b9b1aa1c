"""Bursar's own kinds of object for counting."""

from typing import Final

from bursar.app.cluster.ports import Resource

GROUP: Final = "bursar.io"
COUNTING_POLICIES: Final = Resource(
    GROUP, "v1alpha1", "countingpolicies", "CountingPolicy", is_namespaced=False
)
