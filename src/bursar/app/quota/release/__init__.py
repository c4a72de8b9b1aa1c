"""The release of pods: the queue of lifts, the patch that lifts a gate, and release by force."""
