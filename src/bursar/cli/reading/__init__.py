"""What every verb that reads shares: where it reads, and which objects."""
