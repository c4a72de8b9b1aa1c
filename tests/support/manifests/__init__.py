"""Random and odd manifests, and the comparison of our verdict on one with upstream's."""
