"""The ways to search: one table, one reference, and its fast forms."""
