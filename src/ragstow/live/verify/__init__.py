"""Asks a live cluster what a verification needs to know: exec in pods, logs, the record of an apply. Judges nothing."""
