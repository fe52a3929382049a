"""The service catalog: the services of this cloud and their addresses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

REGION = "RegionOne"
INTERFACES = ("public", "internal", "admin")
_IDS = uuid.UUID("6b1f5c0e-0a34-4d0e-9c53-0d6f2a1f8a77")  # ids are derived from it, so they never change


def _stable_id(*words: str) -> str:
    return uuid.uuid5(_IDS, "/".join(words)).hex


@dataclass(frozen=True)
class CatalogService:
    """A service as clients look it up: by type; the name is for display."""

    type: str
    name: str
    path: str
    description: str

    @property
    def id(self) -> str:
        return _stable_id("service", self.type)

    def endpoint_id(self, interface: str) -> str:
        return _stable_id("endpoint", self.type, interface)


SERVICES = (  # list only what answers
    CatalogService("identity", "keystone", "/identity", "Users, projects, roles and tokens"),
    CatalogService("compute", "nova", "/compute/v2.1", "Servers and the hosts that run them"),
    CatalogService("image", "glance", "/image", "Images that servers boot from"),
    CatalogService("network", "neutron", "/network", "Networks, ports and addresses"),
    CatalogService("load-balancer", "octavia", "/load-balancer", "Addresses that spread connections over servers"),
    CatalogService("placement", "placement", "/placement", "What hosts have, and which consumers hold how much of it"),
    CatalogService("block-storage", "cinder", "/volume/v3", "Volumes that servers can have"),
)


def catalog(base_url: str) -> list[dict[str, Any]]:
    """Return our own part of the catalog. `base_url` is the address that the client used, without a trailing slash."""
    return [
        {
            "id": service.id,
            "type": service.type,
            "name": service.name,
            "endpoints": [
                {
                    "id": service.endpoint_id(interface),
                    "interface": interface,
                    "region": REGION,
                    "region_id": REGION,
                    "url": base_url + service.path,
                }
                for interface in INTERFACES
            ],
        }
        for service in SERVICES
    ]
