"""The process of `bursar up`: a cluster of its own or a real one, and what is shown of it."""
