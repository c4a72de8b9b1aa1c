"""The node's disk: folders of pods, scanned or counted by the filesystem's project quotas."""
