"""The rules of Kubernetes and of Bursar: pure functions and values, no I/O, clock, log or float."""
