"""Device annotations, inventories, ResourceClaims and kubelet's PodResources API, to the core."""
