"""The HTTP routes of the controller: metrics, health, leadership and resizes."""
