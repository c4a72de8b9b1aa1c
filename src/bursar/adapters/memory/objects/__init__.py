"""The stored objects of the embedded cluster: revisions, metadata, patches, garbage collection."""
