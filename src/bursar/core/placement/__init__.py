"""Where a pod fits: filter and score, as kube-scheduler computes them."""
