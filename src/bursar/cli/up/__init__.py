"""The terminal application of `bursar up`, which is imported only to draw: Textual is slow."""
