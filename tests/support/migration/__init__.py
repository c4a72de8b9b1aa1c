"""An installation of AAQ, of which a move takes over."""
