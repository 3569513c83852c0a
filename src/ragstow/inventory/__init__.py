"""The GPUs of a cluster: which, how shared, who holds them, what is free. Says unknown where the data do not tell."""
