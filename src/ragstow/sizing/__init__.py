"""The memory that a component needs on a card, term by term, each with source and band."""
