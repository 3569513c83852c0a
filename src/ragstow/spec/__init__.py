"""What is wanted: the RagService a user types, checked all at once, and the normalised service that everybody else reads."""
