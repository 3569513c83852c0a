"""Findings: one rule, one file. Looks at a snapshot through a context; never imports scheduling, sizing or simulate."""
