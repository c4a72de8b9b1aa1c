"""What there is to see of Bursar in Prometheus: numbers, taken when they are asked for."""
