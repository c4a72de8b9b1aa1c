"""What commands, metrics and status pages show of quotas."""
