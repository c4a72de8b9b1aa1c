"""Validation of whole manifests by the API server's rules: strict decoding, then every field."""
