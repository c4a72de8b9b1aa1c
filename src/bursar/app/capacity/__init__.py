"""What nodes offer of extended resources: declared, kept so, and what of it is used."""
