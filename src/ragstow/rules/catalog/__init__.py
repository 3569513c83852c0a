"""The rules, one module each; see `ragstow.rules.rule` for the shape."""
