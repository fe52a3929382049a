"""Proxy routes to other services, with the version in which they end; and removed routes."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from portal.api.base import ApiRequest
from portal.api.compute.routes.servers import SERVER
from portal.api.compute.table import ComputeOperation as Op
from portal.api.compute.table import Route
from portal.api.compute.view import ComputeView
from portal.api.compute.views import image_proxies as images
from portal.api.compute.views import network_proxies as networks
from portal.api.compute.views import volume_proxies as volumes
from portal.api.errors import Gone


class Removed(ComputeView):
    """410 for every request."""

    def get(self, request: ApiRequest, **names: Any) -> Response:
        raise Gone("This part of the API was removed and does not come back.")

    post = put = delete = get


ENDS = "2.35"  # the last version that passes requests on
METADATA_ENDS = "2.38"


def _gone(*paths: str) -> tuple[Route, ...]:
    """Return routes of removed resources: 410 for every method, in every version."""
    operations = {method: Op("", 410) for method in ("GET", "POST", "PUT", "DELETE")}
    return tuple(Route(one, Removed, operations, "removed; 410") for one in paths)


REMOVED = _gone(
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


def _op(rule: str, status: int = 200) -> Op:
    return Op(rule, status, until=ENDS)


NETWORKS: tuple[Route, ...] = (
    Route("os-networks", networks.Networks, {"GET": _op("os-networks:list"), "POST": Op("", 410)}),
    Route(
        "os-networks/<str:network_id>",
        networks.NetworkById,
        {"GET": _op("os-networks:show"), "DELETE": Op("", 410)},
    ),
    Route("os-tenant-networks", networks.TenantNetworks, {"GET": _op("os-tenant-networks:list"), "POST": Op("", 410)}),
    Route(
        "os-tenant-networks/<str:network_id>",
        networks.TenantNetworkById,
        {"GET": _op("os-tenant-networks:show"), "DELETE": Op("", 410)},
    ),
    Route(
        "os-security-groups",
        networks.SecurityGroups,
        {"GET": _op("os-security-groups:get"), "POST": _op("os-security-groups:create")},
    ),
    Route(
        "os-security-groups/<str:group_id>",
        networks.SecurityGroupById,
        {
            "GET": _op("os-security-groups:show"),
            "PUT": _op("os-security-groups:update"),
            "DELETE": _op("os-security-groups:delete", 202),
        },
    ),
    Route("os-security-group-rules", networks.SecurityGroupRules, {"POST": _op("os-security-groups:rule:create")}),
    Route(
        "os-security-group-rules/<str:rule_id>",
        networks.SecurityGroupRuleById,
        {"DELETE": _op("os-security-groups:rule:delete", 202)},
    ),
    Route("os-floating-ip-pools", networks.FloatingIpPools, {"GET": _op("os-floating-ip-pools")}),
    Route(
        "os-floating-ips",
        networks.FloatingIps,
        {"GET": _op("os-floating-ips:list"), "POST": _op("os-floating-ips:create")},
    ),
    Route(
        "os-floating-ips/<str:address_id>",
        networks.FloatingIpById,
        {"GET": _op("os-floating-ips:show"), "DELETE": _op("os-floating-ips:delete", 202)},
    ),
)
_IMAGE = "images/<str:image_id>"
STORAGE: tuple[Route, ...] = (
    Route("images", images.Images, {"GET": _op("")}, "`name`, `status`, `type`, `server`, `minRam`, `minDisk`; pages"),
    Route("images/detail", images.Images, {"GET": _op("")}, attributes={"is_detailed": True}),
    Route(_IMAGE, images.ImageById, {"GET": _op(""), "DELETE": _op("", 204)}),
    Route(
        f"{_IMAGE}/metadata",
        images.ImageMetadata,
        {method: Op("", until=METADATA_ENDS) for method in ("GET", "POST", "PUT")},
    ),
    Route(
        f"{_IMAGE}/metadata/<str:key>",
        images.ImageMetadataItem,
        {
            "GET": Op("", until=METADATA_ENDS),
            "PUT": Op("", until=METADATA_ENDS),
            "DELETE": Op("", 204, until=METADATA_ENDS),
        },
    ),
    Route("os-volumes", volumes.Volumes, {"GET": _op("os-volumes:list"), "POST": _op("os-volumes:create")}),
    Route("os-volumes/detail", volumes.Volumes, {"GET": _op("os-volumes:detail")}),
    Route(
        "os-volumes/<str:volume_id>",
        volumes.VolumeById,
        {"GET": _op("os-volumes:show"), "DELETE": _op("os-volumes:delete", 202)},
    ),
    Route(
        "os-snapshots",
        volumes.Snapshots,
        {"GET": _op("os-volumes:snapshots:list"), "POST": _op("os-volumes:snapshots:create")},
    ),
    Route("os-snapshots/detail", volumes.Snapshots, {"GET": _op("os-volumes:snapshots:detail")}),
    Route(
        "os-snapshots/<str:snapshot_id>",
        volumes.SnapshotById,
        {"GET": _op("os-volumes:snapshots:show"), "DELETE": _op("os-volumes:snapshots:delete", 202)},
    ),
)
ROUTES: tuple[Route, ...] = (*NETWORKS, *STORAGE, *REMOVED)
