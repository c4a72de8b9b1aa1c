"""Kubelet's pod-resources API as it goes over the socket."""
