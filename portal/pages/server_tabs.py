"""The tabs of a server's page beside overview, console and activity: what it has, where it is, what it is called."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, NotFound
from conductor.services import (
    decisions,
    locks,
    server_facts,
    server_interfaces,
    server_volumes,
    snapshot_schedules,
    volumes,
)
from conductor.services.decision_values import DecisionQuery
from conductor.services.locks import LockQuery
from conductor.services.values import InstanceView
from portal.pages import placement
from portal.pages.resources.catalog import may_do
from portal.pages.resources.schedules import FACES, SCHEDULES, when
from portal.pages.resources.servers import SERVER

WORDS = {  # by the workflow that holds a part of the server
    "attach_volume": "Attach",
    "detach_volume": "Detach",
    "attach_interface": "Attach",
    "detach_interface": "Detach",
}


def deed_links(asker: RequestContext, server: InstanceView, *ids: str) -> list[dict[str, str]]:
    """Buttons that lead to the forms of a tab, for whoever may use them."""
    found = [deed for deed in SERVER.deeds if deed.id in ids and may_do(asker, SERVER, deed)]
    return [{"title": deed.title, "does": deed.does, "url": deed_url(server, deed.id)} for deed in found]


def deed_url(server: InstanceView, deed_id: str, **values: str) -> str:
    return f"{reverse('resource-deed', args=[SERVER.id, deed_id])}?{urlencode({'item': server.uuid, **values})}"


def volumes_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Its volumes by device, each with the way to its page."""
    try:
        attachments = server_volumes.list_attachments(asker, server.uuid)
    except (Conflict, NotFound):
        attachments = []
    may_detach = bool(deed_links(asker, server, "detach-volume"))
    requested = _requested(asker, server, [f"volume:{one.volume_id}" for one in attachments])
    rows = [
        {
            "attachment": one,
            "volume": _volume(asker, one.volume_id),
            "requested": requested.get(f"volume:{one.volume_id}", ""),
            "detach_url": deed_url(server, "detach-volume", volume=one.volume_id) if may_detach else "",
        }
        for one in attachments
    ]
    return {"rows": rows, "links": deed_links(asker, server, "attach-volume")}


def _requested(asker: RequestContext, server: InstanceView, resources: list[str]) -> dict[str, str]:
    """What somebody has asked to come to this server or to go from it, and has not come or gone yet."""
    shares = [f"{resource}:{server.uuid}" for resource in resources]
    held = locks.list_locks(asker, LockQuery(), among=resources + shares).items if resources else []
    return {":".join(lock.resource.split(":")[:2]): WORDS[lock.flow] for lock in held if lock.flow in WORDS}


def _volume(asker: RequestContext, volume_id: str) -> Any:
    try:
        return volumes.get_visible(asker, volume_id)
    except NotFound:
        return None


def network_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Its ports with their addresses, and its security groups."""
    try:
        interfaces = server_interfaces.list_interfaces(asker, server.uuid)
    except (Conflict, NotFound):
        interfaces = []
    may_detach = bool(deed_links(asker, server, "detach-port"))
    requested = _requested(asker, server, [f"port:{one.port_id}" for one in interfaces])
    floating = {port.get("port_uuid", ""): port.get("floating", ()) for port in server.addresses}
    rows = [
        {
            "port": one,
            "floating": [item["ip_address"] for item in floating.get(one.port_id, ())],
            "requested": requested.get(f"port:{one.port_id}", ""),
            "detach_url": deed_url(server, "detach-port", port=one.port_id) if may_detach else "",
        }
        for one in interfaces
    ]
    links = deed_links(asker, server, "attach-network", "add-group", "remove-group")
    return {"rows": rows, "links": links, "groups": server.security_groups, "reach_url": _reach_url(server)}


def _reach_url(server: InstanceView) -> str:
    return f"{reverse('reach')}?{urlencode({'target': server.uuid, 'protocol': 'icmp', 'source': server.uuid})}"


def images_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """How to make an image of it; those made are among the images. What comes round."""
    found = snapshot_schedules.list_of(asker, kind=snapshot_schedules.SERVER, subject_uuid=server.uuid)
    items = [asdict(one) for one in found.items]
    may_schedule = may_do(asker, SCHEDULES, SCHEDULES.deeds[0]) and bool(server.image.image_id)
    url = reverse("resource-deed", args=[SCHEDULES.id, "of-server"])
    return {
        "links": deed_links(asker, server, "make-image"),
        "schedules": [(item, when(item), FACES.get(item["state"])) for item in items],
        "schedule_url": f"{url}?{urlencode({'server': server.uuid})}" if may_schedule else "",
    }


def words_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Metadata and tags."""
    links = deed_links(asker, server, "rename", "metadata", "tags")
    return {"metadata": sorted(server.metadata.items()), "links": links}


def placement_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Why it is where it is: the newest decision that found it a host, or the newest of all where none has."""
    for outcome in ("successful", ""):
        query = DecisionQuery(instance_uuid=server.uuid, outcome=outcome, limit=1)
        for found in decisions.list_page(asker, query).items:
            decision = placement.explain(decisions.get(asker, found.uuid))
            return {"decisions": [decision], "run_uuid": found.run_uuid}
    return {"decisions": [], "run_uuid": ""}


def topology_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """How its processors and memory lie on the host's nodes; operators see the host's side of it too."""
    try:
        found = server_facts.topology(asker, server.uuid)
    except (Conflict, Forbidden, NotFound) as error:
        return {"topology": None, "why_none": error.message}
    return {
        "topology": found,
        "why_none": "" if found.cells else "Its size asks for no layout of processors and memory.",
    }


def danger_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """What cannot be undone."""
    return {"links": deed_links(asker, server, "resize")}
