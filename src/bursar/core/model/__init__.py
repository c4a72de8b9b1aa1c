"""The Kubernetes resource model: quantities, pod demand, QoS, cgroup values, node capacity."""
