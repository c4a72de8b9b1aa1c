"""Implementations of the ports of `app`: one technology each, and none imports another one."""
