"""Sends doubtful translations to a second translator."""
