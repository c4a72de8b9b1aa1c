"""Client authentication: tokens, TLS contexts, and the files that they are read from."""
