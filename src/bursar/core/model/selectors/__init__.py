"""Label selectors, and their text as kubectl takes it."""
