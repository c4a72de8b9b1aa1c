"""The verb `bursar migrate`: from AAQ and back, and from quotas of Kubernetes and OpenShift."""
