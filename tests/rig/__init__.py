"""A simulated GPU cluster on the real control plane: see tests/controlplane/README.md."""
