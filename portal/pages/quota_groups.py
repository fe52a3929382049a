"""All limits of the project in use, by the service that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conductor.services import quotas, volume_quotas
from conductor.services.values import QuotaView
from portal.pages.access import PageRequest
from portal.pages.api_calls import ask
from portal.pages.quota_bars import QuotaBar

COMPUTE_WORDS = {
    "instances": "Servers",
    "cores": "vCPU",
    "ram": "Memory",
    "key_pairs": "Key pairs of yours",
    "server_groups": "Server groups",
}
VOLUME_WORDS = {"volumes": "Volumes", "gigabytes": "GB of volumes and snapshots", "snapshots": "Volume snapshots"}
NETWORK_WORDS = {
    "network": "Networks",
    "subnet": "Subnets",
    "port": "Ports",
    "router": "Routers",
    "floatingip": "Floating IPs",
    "security_group": "Security groups",
    "security_group_rule": "Security rules",
}
WORDS: Mapping[str, str] = {**COMPUTE_WORDS, **VOLUME_WORDS, **NETWORK_WORDS}


def groups(request: PageRequest) -> list[tuple[str, list[QuotaBar]]]:
    """The bars of each service, under its title."""
    asker = request.asker
    own = [one for one in quotas.show(asker, asker.project_id, asker.user_id) if one.resource == "key_pairs"]
    shared = [one for one in quotas.show(asker, asker.project_id) if one.resource in COMPUTE_WORDS]
    compute = [one for one in shared if one.resource != "key_pairs"] + own  # key pairs count for each person
    volumes = [one for one in volume_quotas.show(asker.project_id) if one.resource in VOLUME_WORDS]
    network = ask(request, f"/network/v2.0/quotas/{asker.project_id}/details")["quota"]
    nets = [QuotaView(name, one["limit"], one["used"]) for name, one in network.items() if name in NETWORK_WORDS]
    return [
        ("Compute", _bars(compute, COMPUTE_WORDS)),
        ("Storage", _bars(volumes, VOLUME_WORDS)),
        ("Network", _bars(nets, NETWORK_WORDS)),
    ]


def _bars(limits: Iterable[QuotaView], words: Mapping[str, str]) -> list[QuotaBar]:
    by_name = {limit.resource: limit for limit in limits}
    found = [by_name[name] for name in words if name in by_name]
    return [QuotaBar(words[one.resource], one.resource, one.in_use, one.limit) for one in found]
