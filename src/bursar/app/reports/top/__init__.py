"""What nodes, namespaces, pods and owners request, are limited to, use and have free."""
