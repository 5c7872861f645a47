"""The version, here alone: it is written into all that we store."""

__version__ = "0.1.0"
