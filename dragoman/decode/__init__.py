"""From a model's next-word probabilities to a translation."""
