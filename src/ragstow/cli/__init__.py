"""The command line: one module per command; the only place that wires rooms together and prints."""
