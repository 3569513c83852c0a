"""Sharing modes, card layouts and placements of a whole service, with the proof. Owns the Plan type."""
