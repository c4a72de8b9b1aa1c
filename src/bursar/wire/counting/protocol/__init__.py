"""The messages of the sidecar protocol, made by `make protocol`."""
