"""How kube-scheduler and the kubelet decide, rule by rule and release by release; pure, every refusal has a reason."""
