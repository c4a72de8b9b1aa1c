"""The scheduler extender as a process and on the embedded cluster, and pools in short notation."""
