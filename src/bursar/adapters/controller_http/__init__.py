"""What the controller answers over HTTPS: metrics, health, who leads, and resizes."""
