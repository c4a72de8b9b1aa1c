"""What should happen: one module per job."""
