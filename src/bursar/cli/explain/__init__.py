"""The verb `bursar explain`: why a pod does not run."""
