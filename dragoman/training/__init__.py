"""Training: turn prepared data into weights."""
