"""Reports about a node, a pod or the cluster, as values that commands print."""
