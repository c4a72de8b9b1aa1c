"""Admission plugins that the API server and Bursar's webhook have on a real cluster."""
