"""Facts as data files with source and date; loaders only, no decisions."""
