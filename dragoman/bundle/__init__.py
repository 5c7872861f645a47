"""A bundle is a folder with one model: its weights, pieces, settings and card, and an adapter."""
