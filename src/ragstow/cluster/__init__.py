"""What is: typed objects, the one Snapshot, and the readers of saved clusters. No GPU knowledge, no API server."""
