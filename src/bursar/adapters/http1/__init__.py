"""An HTTP/1.1 client: connections that are kept alive, and responses that are streamed."""
