"""The suite's configuration (tempest.conf), written from what the cloud says about itself."""

from __future__ import annotations

import json
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from tests.acceptance.cloud import Client

Sections = dict[str, dict[str, str]]
PARTS = ("compute", "network", "volume")
# What a simulated guest can do: all that needs no sign-in to a guest.
FEATURES = {
    "compute-feature-enabled": (
        *("resize", "cold_migration", "live_migration", "shelve", "snapshot", "suspend", "pause", "rescue", "attach"),
        *("interface_attach", "change_password", "console_output", "personality", "swap_volume", "volume_multiattach"),
        *("metadata_service", "config_drive", "live_migrate_back_and_forth", "block_migration_for_live_migration"),
    ),
    "volume-feature-enabled": (
        *("backup", "snapshot", "clone", "extend_attached_volume", "manage_volume", "manage_snapshot"),
        *("consistency_group", "volume_revert"),
    ),
    "network-feature-enabled": ("ipv6", "ipv6_subnet_attributes", "floating_ips"),
    "image-feature-enabled": ("api_v2",),
}


class CloudFacts:
    """Answers of the cloud that the configuration is made of."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str, user: str = "admin") -> Any:
        answer = self._client.call("GET", path, user=user)
        assert answer.status in (200, 300), (path, answer.raw)
        return answer.json

    def flavors(self) -> list[str]:
        """Return the ids of two public flavors, the smallest ones."""
        found = self.get("/compute/v2.1/flavors/detail")["flavors"]
        return [one["id"] for one in sorted(found, key=lambda one: (one["ram"], one["disk"]))[:2]]

    def images(self) -> list[str]:
        """Return the ids of the public images; the suite needs two, so a copy of the first one is made."""
        found = self.get("/image/v2/images?status=active&visibility=public&sort=name:asc")["images"]
        uuids = [one["id"] for one in found]
        return uuids if len(uuids) > 1 else [*uuids, self._copy_of(found[0])]

    def _copy_of(self, image: dict[str, Any]) -> str:
        described = {name: image[name] for name in ("disk_format", "container_format", "min_disk", "min_ram")}
        made = self._client.call(
            "POST", "/image/v2/images", {"name": "copy", "visibility": "public", **described}, user="admin"
        )
        data = self._client.call("GET", f"/image/v2/images/{image['id']}/file", user="admin").raw
        stored = self._client.call("PUT", f"/image/v2/images/{made.json['id']}/file", data, user="admin")
        assert stored.status == 204, stored.raw
        return str(made.json["id"])

    def public_network(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/network/v2.0/networks?router:external=true")["networks"][0]
        return found

    def versions(self, service: str) -> dict[str, Any]:
        path = {"compute": "/compute/v2.1", "volume": "/volume/v3/"}[service]
        found = self.get(path)
        document: dict[str, Any] = found.get("version") or found["versions"][0]
        return document

    def compute_hosts(self) -> int:
        return len(self.get("/compute/v2.1/os-services?binary=nova-compute")["services"])


def sections(client: Client) -> Sections:
    """Return the configuration by section."""
    facts = CloudFacts(client)
    passwords = json.loads((client.data_dir / "passwords.json").read_text())
    flavors, images, network = facts.flavors(), facts.images(), facts.public_network()
    compute, volume = facts.versions("compute"), facts.versions("volume")
    found: Sections = {
        "auth": {
            "use_dynamic_credentials": "true",
            "admin_username": "admin",
            "admin_password": passwords["admin"],
            "admin_project_name": "admin",
            "admin_domain_name": "Default",
        },
        "identity": {"auth_version": "v3", "uri_v3": f"{client.url}/identity/v3", "region": "RegionOne"},
        "service_available": {"cinder": "true", "glance": "true", "neutron": "true", "nova": "true", "swift": "false"},
        "validation": {"run_validation": "false"},
        "compute": {
            "image_ref": images[0],
            "image_ref_alt": images[-1],
            "flavor_ref": flavors[0],
            "flavor_ref_alt": flavors[-1],
            "min_compute_nodes": str(facts.compute_hosts()),
            "min_microversion": compute["min_version"],
            "max_microversion": compute["version"],
        },
        "network": {"public_network_id": network["id"], "floating_network_name": network["name"]},
        "volume": {"min_microversion": volume["min_version"], "max_microversion": volume["version"]},
    }
    for section, names in FEATURES.items():
        found.setdefault(section, {}).update(dict.fromkeys(names, "true"))
    extensions = [one["alias"] for one in facts.get("/network/v2.0/extensions")["extensions"]]
    found["network-feature-enabled"]["api_extensions"] = ",".join(extensions)
    return found


def write(path: Path, client: Client) -> None:
    """Write the configuration."""
    parser = ConfigParser(interpolation=None)
    parser.read_dict(sections(client))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        parser.write(file)
    path.chmod(0o600)  # it has the administrator's password
