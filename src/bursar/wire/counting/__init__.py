"""What counters read and write: whole pods, and the protocol of sidecars."""
