"""What statuses and commands show of the books: statements, recounts and the queue."""
