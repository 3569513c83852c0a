"""Indexes over a snapshot that rules share: events, logs, owners, states of pods. They find, they do not judge."""
