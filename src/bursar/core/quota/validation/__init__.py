"""What the API server refuses in quotas."""
