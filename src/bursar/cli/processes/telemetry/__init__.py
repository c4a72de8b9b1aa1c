"""Options of what processes tell about themselves: logs and traces."""
