"""What may happen in a random history."""
