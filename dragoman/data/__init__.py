"""Parallel text as ids on disk, and the order in which training sees it."""
