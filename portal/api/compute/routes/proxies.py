"""Routes that only pass on to other services, until the version in which they end; and what was removed."""

from __future__ import annotations

from portal.api.compute.routes.servers import SERVER
from portal.api.compute.table import Route, gone

REMOVED = gone(
    "os-agents",
    "os-agents/<str:ref>",
    "os-cells",
    "os-cells/<str:ref>",
    "os-cells/<str:ref>/capacities",
    "os-certificates",
    "os-certificates/<str:ref>",
    "os-cloudpipe",
    "os-cloudpipe/<str:ref>",
    "os-fixed-ips/<str:ref>",
    "os-fixed-ips/<str:ref>/action",
    "os-floating-ip-dns",
    "os-floating-ip-dns/<str:ref>",
    "os-floating-ip-dns/<str:domain>/entries/<str:ref>",
    "os-floating-ips-bulk",
    "os-floating-ips-bulk/<str:ref>",
    "os-fping",
    "os-fping/<str:ref>",
    "os-security-group-default-rules",
    "os-security-group-default-rules/<str:ref>",
    f"{SERVER}/consoles",
    f"{SERVER}/consoles/<str:ref>",
    f"{SERVER}/os-virtual-interfaces",
)
ROUTES: tuple[Route, ...] = (*REMOVED,)
