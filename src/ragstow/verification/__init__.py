"""Acceptance: what a check is, what nvidia-smi says, and what follows from it. Pure: who asks the cluster is `live`."""
