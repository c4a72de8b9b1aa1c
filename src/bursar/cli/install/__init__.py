"""The verb manifests."""
