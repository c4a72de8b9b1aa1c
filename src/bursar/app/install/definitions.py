"""Which CustomResourceDefinitions an installation has."""

from collections.abc import Mapping, Sequence

from bursar.app.install.documents import Document


def wanted_definitions(
    definitions: Sequence[Document], *, has_cluster_quota: bool
) -> tuple[Document, ...]:
    """The definitions without those of cluster quotas, unless these are allowed."""
    return tuple(each for each in definitions if has_cluster_quota or not is_cluster_quota(each))


def is_cluster_quota(definition: Document) -> bool:
    metadata = definition.get("metadata")
    return isinstance(metadata, Mapping) and "clusterresourcequotas" in str(metadata.get("name"))
