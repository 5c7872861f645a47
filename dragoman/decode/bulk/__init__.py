"""Translates large files in shards, on many workers, resuming after interruptions."""
