"""Doubtful translations go to a second translator."""
