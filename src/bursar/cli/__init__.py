"""The command line: options, output and help of each command."""
