"""The Helm chart in tests: the real helm, and the options of the command that match values."""
