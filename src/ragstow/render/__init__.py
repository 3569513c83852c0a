"""Manifests and node configuration from (spec, plan): pure functions, typed builders, no templates."""
