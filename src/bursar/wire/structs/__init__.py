"""Plain values and JSON bytes to typed structs, with errors that name the field."""
