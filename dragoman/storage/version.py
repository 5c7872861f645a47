"""The version, which is written into every stored file."""

__version__ = "0.1.0"
