"""The steps of `make image`: Debian's packages, wheels, bytecode, layers, the bill of materials, the archive."""
