"""What an installation lacks: the version of the API server, and the state of Bursar's objects."""
