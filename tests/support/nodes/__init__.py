"""What nodes with real containers must show, and must not leave behind."""
