"""All routes of the Compute API: the one table that routing, versions, rules, documentation and tests go by."""

from __future__ import annotations

from portal.api.compute.routes import proxies, resources, servers
from portal.api.compute.table import Route

ROUTES: tuple[Route, ...] = (*servers.ROUTES, *resources.ROUTES, *proxies.ROUTES)
