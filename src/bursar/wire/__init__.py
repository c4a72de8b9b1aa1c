"""How others write it: bytes to typed structs to the core."""
