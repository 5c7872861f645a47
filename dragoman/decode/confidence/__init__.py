"""Estimates the quality of translations without references."""
