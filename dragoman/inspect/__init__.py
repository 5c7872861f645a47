"""Inspect a model: scores of given translations, attention, embeddings, kinds of errors."""
