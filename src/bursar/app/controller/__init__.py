"""The controller process: leader election, and the work that runs while it leads."""
