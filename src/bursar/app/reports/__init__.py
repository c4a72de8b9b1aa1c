"""What is true of a node, a pod or a whole cluster, as values that commands print."""
