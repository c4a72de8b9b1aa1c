"""Reading manifests from files, folders and standard input."""
