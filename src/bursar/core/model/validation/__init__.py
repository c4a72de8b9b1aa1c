"""What the API server refuses about resources, in its words."""
