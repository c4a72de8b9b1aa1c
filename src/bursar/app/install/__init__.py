"""The manifests that install Bursar: policies, webhooks, RBAC and the agent."""
