"""What runs a model for search: `start` with sentences, then `step` by `step`."""
