"""Persistent volumes as the scheduler sees them: claims, volumes, classes, limits, and how a claim gets its volume."""
