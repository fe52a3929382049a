"""All routes of the Compute API: the one table for routing, versions, policies, documentation and tests."""

from __future__ import annotations

from portal.api.compute.routes import proxies, resources, servers
from portal.api.compute.table import Route

ROUTES: tuple[Route, ...] = (*servers.ROUTES, *resources.ROUTES, *proxies.ROUTES)
