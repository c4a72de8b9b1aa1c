"""Lines, servers and inputs that misbehave on purpose."""
