"""The HTTP side of the scheduler extender."""
