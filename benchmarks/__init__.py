"""Measurements that the documentation quotes; `make bench` runs the timed ones."""
