"""The error that ends a command with one line: input that cannot be read."""


class BadInputError(Exception):
    """Input that cannot be read. Its text is one line that names the place."""
