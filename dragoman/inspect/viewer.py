"""The style sheet and the script that all pages share, those of the lab and of the service."""

from importlib import resources

VIEWER = resources.files("dragoman.inspect") / "page"
