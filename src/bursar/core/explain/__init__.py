"""Explanations: why a pod or a container does not run, in words."""
