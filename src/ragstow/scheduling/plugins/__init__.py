"""The plugins of kube-scheduler's default profile, one module each: `framework` is the protocol, `registry` the order."""
