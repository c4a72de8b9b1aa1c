"""Changes to Python's import machinery that make short commands start sooner."""
