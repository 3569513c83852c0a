"""Dynamic resource allocation: what kube-scheduler's structured allocator does with slices, classes and claims."""
