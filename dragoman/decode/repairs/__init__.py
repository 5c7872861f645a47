"""Repairs of translations that lose numbers, names, symbols or terms, by further searches."""
