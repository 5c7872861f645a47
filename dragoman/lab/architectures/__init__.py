"""The systems before the Transformer, and the decoder-only model after it."""
