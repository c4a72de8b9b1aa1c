"""What is true: pure, synchronous, no clock, no log, no float."""
