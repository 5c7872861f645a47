"""What a translation promises: terms, numbers, and what must stay as it is."""
