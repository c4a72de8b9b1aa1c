"""The controllers of workloads: Deployments, StatefulSets, DaemonSets and Jobs."""
