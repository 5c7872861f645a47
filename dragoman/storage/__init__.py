"""Atomic writing of files, and reading of untrusted ones."""
