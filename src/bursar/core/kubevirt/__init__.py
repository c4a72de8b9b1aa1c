"""KubeVirt's virtual machines: which pods run them, and what a quota charges for them."""
