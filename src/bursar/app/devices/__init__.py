"""The devices of a node's pods: asked of kubelet, filled in from other sources, passed on."""
