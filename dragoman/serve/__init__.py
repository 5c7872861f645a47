"""The HTTP service and its page."""

ROUTERS: list[str] = []
"""Modules of plug-ins, each with a FastAPI `router` of more routes."""
PAGES = ["dragoman.inspect", "dragoman.serve"]
"""Packages whose folder `page` holds files of the service's page. Plug-ins add theirs."""
