"""From prepared data to weights."""
