"""Bursar's HTTPS server, and the admission reviews that API servers send to it."""
