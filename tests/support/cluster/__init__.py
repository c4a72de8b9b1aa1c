"""Clusters that tests run against, and ways to reach them."""
