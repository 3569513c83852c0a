"""What a card can be cut into: plugin configuration, resources and labels that result, MIG geometry, what a mode gives."""
