"""What keeps a pod from running, and the least changes that would let it run."""
