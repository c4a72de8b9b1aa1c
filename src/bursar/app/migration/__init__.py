"""The move from AAQ to Bursar and back, and the import of quotas of Kubernetes and OpenShift."""
