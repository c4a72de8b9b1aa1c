"""X.509 certificates and private keys, on the library `cryptography`."""
