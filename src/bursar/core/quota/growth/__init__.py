"""Resizes of running pods: what they are promised before the API server stores them."""
