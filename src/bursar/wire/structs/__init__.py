"""Typed structs from JSON bytes or plain values, with errors that name the field."""
