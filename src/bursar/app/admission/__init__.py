"""What admission decides about pods and quotas."""
