"""Tabs of a server's page other than overview, console and activity: resources, placement, metadata."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, NotFound
from conductor.services.consoles import diagnostics
from conductor.services.networks import balancers
from conductor.services.scheduling import decisions
from conductor.services.scheduling.types import DecisionQuery
from conductor.services.servers import interfaces as server_interfaces
from conductor.services.servers import server_volumes, snapshot_schedules
from conductor.services.servers.types import InstanceData
from conductor.services.volumes import volumes
from conductor.services.workflows import locks
from conductor.services.workflows.locks import LockQuery
from portal.pages import policies
from portal.pages.networking.load_balancers import LOAD_BALANCERS
from portal.pages.resource_pages.catalog import may_do
from portal.pages.resource_pages.server_resources import SERVER
from portal.pages.resource_pages.views import item_url
from portal.pages.scheduling import placement
from portal.pages.storage.snapshot_schedules import BADGES, SCHEDULES, when

WORDS = {  # by the workflow that locks a part of the server
    "attach_volume": "Attach",
    "detach_volume": "Detach",
    "attach_interface": "Attach",
    "detach_interface": "Detach",
}


def action_links(caller: RequestContext, server: InstanceData, *ids: str) -> list[dict[str, str]]:
    """Return links to the forms of a tab that the caller may use."""
    found = [action for action in SERVER.actions if action.id in ids and may_do(caller, SERVER, action)]
    return [{"title": action.title, "does": action.does, "url": action_url(server, action.id)} for action in found]


def action_url(server: InstanceData, action_id: str, **values: str) -> str:
    return f"{reverse('resource-action', args=[SERVER.id, action_id])}?{urlencode({'item': server.uuid, **values})}"


def volumes_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the volumes by device, each with a link to its page."""
    try:
        attachments = server_volumes.list_attachments(caller, server.uuid)
    except (Conflict, NotFound):
        attachments = []
    may_detach = bool(action_links(caller, server, "detach-volume"))
    requested = _requested(caller, server, [f"volume:{one.volume_id}" for one in attachments])
    rows = [
        {
            "attachment": one,
            "volume": _volume(caller, one.volume_id),
            "requested": requested.get(f"volume:{one.volume_id}", ""),
            "detach_url": action_url(server, "detach-volume", volume=one.volume_id) if may_detach else "",
        }
        for one in attachments
    ]
    return {"rows": rows, "links": action_links(caller, server, "attach-volume")}


def _requested(caller: RequestContext, server: InstanceData, resources: list[str]) -> dict[str, str]:
    """Return the requested attachments and detachments that are not finished yet."""
    shares = [f"{resource}:{server.uuid}" for resource in resources]
    held = locks.list_locks(caller, LockQuery(), among=resources + shares).items if resources else []
    return {":".join(lock.resource.split(":")[:2]): WORDS[lock.flow] for lock in held if lock.flow in WORDS}


def _volume(caller: RequestContext, volume_id: str) -> Any:
    try:
        return volumes.get_visible(caller, volume_id)
    except NotFound:
        return None


def network_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the ports with their addresses, and the security groups."""
    try:
        interfaces = server_interfaces.list_interfaces(caller, server.uuid)
    except (Conflict, NotFound):
        interfaces = []
    may_detach = bool(action_links(caller, server, "detach-port"))
    requested = _requested(caller, server, [f"port:{one.port_id}" for one in interfaces])
    floating = {port.get("port_uuid", ""): port.get("floating", ()) for port in server.addresses}
    rows = [
        {
            "port": one,
            "floating": [item["ip_address"] for item in floating.get(one.port_id, ())],
            "requested": requested.get(f"port:{one.port_id}", ""),
            "detach_url": action_url(server, "detach-port", port=one.port_id) if may_detach else "",
        }
        for one in interfaces
    ]
    links = action_links(caller, server, "attach-network", "add-group", "remove-group")
    return {
        "rows": rows,
        "links": links,
        "groups": server.security_groups,
        "reach_url": _reach_url(server),
        "balancers": _balancers(caller, [place for one in interfaces for place in one.addresses]),
    }


def _balancers(caller: RequestContext, places: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the load balancers with a member at these addresses: the address of the page, and the name."""
    if not (places and policies.may(caller, LOAD_BALANCERS.service, LOAD_BALANCERS.rule)):
        return []
    found = balancers.balancers_at(caller, places)
    return [(item_url(LOAD_BALANCERS, ident), name or ident[:8]) for ident, name in found.items()]


def _reach_url(server: InstanceData) -> str:
    return f"{reverse('reach')}?{urlencode({'target': server.uuid, 'protocol': 'icmp', 'source': server.uuid})}"


def images_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the actions that create images, and the snapshot schedules."""
    found = snapshot_schedules.list_of(caller, kind=snapshot_schedules.SERVER, subject_uuid=server.uuid)
    items = [asdict(one) for one in found.items]
    may_schedule = may_do(caller, SCHEDULES, SCHEDULES.actions[0]) and bool(server.image.image_id)
    url = reverse("resource-action", args=[SCHEDULES.id, "of-server"])
    return {
        "links": action_links(caller, server, "make-image"),
        "schedules": [(item, when(item), BADGES.get(item["state"])) for item in items],
        "schedule_url": f"{url}?{urlencode({'server': server.uuid})}" if may_schedule else "",
    }


def words_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Metadata and tags."""
    links = action_links(caller, server, "rename", "metadata", "tags")
    return {"metadata": sorted(server.metadata.items()), "links": links}


def placement_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the newest decision that found a host for it, or the newest of all if none did."""
    for outcome in ("successful", ""):
        query = DecisionQuery(instance_uuid=server.uuid, outcome=outcome, is_placement=True, limit=1)
        for found in decisions.list_page(caller, query).items:
            decision = placement.explain(decisions.get(caller, found.uuid))
            return {"decisions": [decision], "run_uuid": found.run_uuid}
    return {"decisions": [], "run_uuid": ""}


def topology_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the NUMA topology of processors and memory; operators see the host's nodes too."""
    try:
        found = diagnostics.topology(caller, server.uuid)
    except (Conflict, Forbidden, NotFound) as error:
        return {"topology": None, "why_none": error.message}
    return {
        "topology": found,
        "why_none": "" if found.cells else "The server's flavor has no NUMA topology.",
    }


def danger_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return the irreversible actions."""
    return {"links": action_links(caller, server, "resize")}
