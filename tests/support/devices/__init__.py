"""The device agent of a node, and the kubelets and clients around it."""
