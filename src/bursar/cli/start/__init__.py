"""What makes a short command start sooner."""
