"""Random histories of pods that several counters count: VMs, sidecars and Kubernetes' own way."""
