"""Options of processes, and the settings made of them."""
