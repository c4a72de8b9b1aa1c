"""What surrounds objects: API server answers, kubeconfig files, credentials of exec plugins."""
