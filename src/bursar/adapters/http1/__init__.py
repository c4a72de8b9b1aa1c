"""HTTP/1.1 as a client: connections that are kept, and answers that come bit by bit."""
