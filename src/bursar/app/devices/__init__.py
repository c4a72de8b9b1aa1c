"""The PodResources API of a node: kubelet's responses with the devices of other sources added."""
