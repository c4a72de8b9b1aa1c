"""The import of quotas of Kubernetes and OpenShift."""
