"""The steps of `make image`, one module each."""
