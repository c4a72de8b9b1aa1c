"""How commands end and how errors read: exit codes, usage errors, errors of a cluster."""
