"""Write a sidecar that counts pods: `from bursar.sidecar import serve`."""

from bursar.sidecar.server import Count, Pod, serve

__all__ = ["Count", "Pod", "serve"]
