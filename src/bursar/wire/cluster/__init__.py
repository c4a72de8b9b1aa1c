"""Codecs for responses of the API server, kubeconfig files and exec credential plugins."""
