"""Servers as items of resource pages, and as options of forms."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceData, InstanceQuery
from portal.pages.resources.fields import with_id
from portal.pages.resources.model import Item, ItemOptions, ItemReader, Query

LIST_RULE = "os_compute_api:servers:index"


def item(server: InstanceData) -> Item:
    """Return a server as an item."""
    same = {name: getattr(server, name) for name in ("name", "description", "metadata", "tags", "status")}
    return {**same, "id": server.uuid}


def _get(caller: RequestContext, ident: str) -> Item:
    found = instances.get(caller, ident)
    if found.is_partial:
        raise CellUnavailable(phrase("The cell of instance %(instance)s does not answer.", instance=ident))
    return item(found)


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    found = instances.list_page(caller, InstanceQuery(limit=query["limit"], with_partial=False))
    return Page([item(one) for one in found.items], found.has_more)


READER = ItemReader(_list, _get, "os_compute_api:servers:show")
SERVERS = ItemOptions("compute", LIST_RULE, _list, with_id)
