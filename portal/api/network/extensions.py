"""The extensions of the network API that work here, and no others: clients rely on the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Extension:
    """An extension by the alias that clients look for."""

    alias: str
    name: str
    description: str
    updated: str

    def to_json(self) -> dict[str, Any]:
        return {
            "alias": self.alias,
            "name": self.name,
            "description": self.description,
            "updated": self.updated,
            "links": [],
        }


_SINCE = "2026-11-21T00:00:00-00:00"
EXTENSIONS = (
    Extension("binding", "Port Binding", "Shows administrators the host that a port is plugged on.", _SINCE),
    Extension("external-net", "External networks", "Marks networks that servers are not plugged into.", _SINCE),
    Extension("ip-substring-filtering", "Addresses by substring", "Finds ports by a part of an address.", _SINCE),
    Extension("net-mtu", "Network MTU", "Shows the MTU of a network.", _SINCE),
    Extension("net-mtu-writable", "Writable MTU", "Lets the owner choose the MTU of a network.", _SINCE),
    Extension("pagination", "Pagination", "Lists come in pages by limit and marker.", _SINCE),
    Extension("project-id", "project_id field", "Every object names its project twice.", _SINCE),
    Extension("quotas", "Quotas", "Shows the limits of a project; there are none on networks.", _SINCE),
    Extension("security-group", "Security groups", "Keeps groups and rules; traffic is not filtered yet.", _SINCE),
    Extension("sorting", "Sorting", "Lists can be sorted by sort_key and sort_dir.", _SINCE),
    Extension("standard-attr-description", "Descriptions", "Objects have a description.", _SINCE),
    Extension("standard-attr-revisions", "Revision numbers", "Every change of an object is counted.", _SINCE),
    Extension("standard-attr-timestamp", "Timestamps", "Objects tell when they were made and changed.", _SINCE),
    Extension("subnet_allocation", "Subnet allocation", "Cuts subnets from pools.", _SINCE),
)
