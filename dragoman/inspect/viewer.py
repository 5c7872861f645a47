"""The style sheet and the script that the pages of the lab and of the service share."""

from importlib import resources

VIEWER = resources.files("dragoman.inspect") / "page"
