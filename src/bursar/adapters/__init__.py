"""How it happens: thin shells, one technology each, strangers to each other."""
