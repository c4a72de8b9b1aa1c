"""The API server's rules for a pod's spec, one module for each part of it."""
