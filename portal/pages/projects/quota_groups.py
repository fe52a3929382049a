"""All limits of the current project, grouped by service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from conductor.core.context import RequestContext
from conductor.services.quotas import image_quotas, network_quotas, quotas, row_quotas, volume_quotas
from conductor.services.quotas.types import QuotaView
from portal.pages.permissions import PageRequest
from portal.pages.quota_bars import QuotaBar
from portal.pages.resources import service_calls

COMPUTE_WORDS = {
    "instances": "Servers",
    "cores": "vCPU",
    "ram": "Memory",
    "key_pairs": "Your key pairs",
    "server_groups": "Server groups",
}
VOLUME_WORDS = {"volumes": "Volumes", "gigabytes": "Volumes and snapshots (GB)", "snapshots": "Volume snapshots"}
IMAGE_WORDS = {"image_count_total": "Images", "image_size_total": "Image data"}
NETWORK_WORDS = {
    "network": "Networks",
    "subnet": "Subnets",
    "port": "Ports",
    "router": "Routers",
    "floatingip": "Floating IPs",
    "security_group": "Security groups",
    "security_group_rule": "Security rules",
    "loadbalancer": "Load balancers",
    "listener": "Listeners",
    "pool": "Pools",
    "member": "Pool members",
    "healthmonitor": "Health monitors",
}
# Kinds of rows without a limit in the quota APIs (conductor.row_limits).
ROW_WORDS = {
    "group_snapshots": "Group snapshots",
    "address_scopes": "Address scopes",
    "qos_policies": "QoS policies",
    "image_members": "Members of an image",
    "volume_attachments": "Attachments of a volume",
    "application_credentials": "Your application credentials",
    "access_rules": "Your access rules",
    "trusts": "Your trusts",
    "credentials": "Your stored credentials",
}
SHOWN_WITH = {  # others: Access
    "group_snapshots": "Storage",
    "volume_attachments": "Storage",
    "address_scopes": "Network",
    "qos_policies": "Network",
    "image_members": "Images",
}
WORDS: Mapping[str, str] = {**COMPUTE_WORDS, **VOLUME_WORDS, **NETWORK_WORDS, **ROW_WORDS}


def groups(request: PageRequest) -> list[tuple[str, list[QuotaBar]]]:
    """Return the bars of each service, under its title."""
    caller = request.caller
    own = [one for one in quotas.show(caller, caller.project_id, caller.user_id) if one.resource == "key_pairs"]
    shared = [one for one in quotas.show(caller, caller.project_id) if one.resource in COMPUTE_WORDS]
    compute = [one for one in shared if one.resource != "key_pairs"] + own  # key pairs count per user
    volumes = [one for one in volume_quotas.show(caller.project_id) if one.resource in VOLUME_WORDS]
    nets = _read(caller, "network", "get_quota", network_quotas.show)
    images = _read(caller, "image", "get_images", image_quotas.show)
    rows = [QuotaView(name, one.limit, one.in_use) for name, one in row_quotas.show(caller, caller.project_id).items()]
    found = {
        "Compute": _bars(compute, COMPUTE_WORDS),
        "Storage": _bars(volumes, VOLUME_WORDS),
        "Network": _bars(nets, NETWORK_WORDS),
        "Images": _bars(images, IMAGE_WORDS),
        "Access": [],
    }
    for bar in _bars(rows, ROW_WORDS):
        found[SHOWN_WITH.get(bar.resource, "Access")].append(bar)
    return list(found.items())


def _read(caller: RequestContext, service: str, rule: str, show: Callable[[str], list[QuotaView]]) -> list[QuotaView]:
    """Return the limits of a service, as its API shows them to the caller."""
    return service_calls.read(caller, service, rule, lambda caller, project_id: show(project_id), caller.project_id)


def _bars(limits: Iterable[QuotaView], words: Mapping[str, str]) -> list[QuotaBar]:
    by_name = {limit.resource: limit for limit in limits}
    found = [by_name[name] for name in words if name in by_name]
    return [QuotaBar(words[one.resource], one.resource, one.in_use, one.limit) for one in found]
