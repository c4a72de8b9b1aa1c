"""What `/statusz` and the state dump say of each process."""
