"""The verbs about an installation: manifests and doctor."""
