"""What keeps the counters informed: informers, sidecars, settings."""
