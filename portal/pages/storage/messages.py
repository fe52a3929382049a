"""Messages of the volume service: why an accepted request failed."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.volumes import messages
from conductor.services.volumes.messages import MessageQuery
from portal.api.volume.representations.resources import message_fields
from portal.pages.resources import columns
from portal.pages.resources.model import Column, Item, ItemReader, Query, Resource
from portal.pages.resources.queries import filters_of, page_items, page_of

PATH = "/volume/v3/messages"


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    wanted = MessageQuery(filters=filters_of(query, "resource_uuid"), **page_of(query))
    return page_items(messages.list_visible(caller, wanted), query, message_fields)


def _get(caller: RequestContext, ident: str) -> Item:
    return message_fields(messages.get(caller, ident))


MESSAGES = Resource(
    id="volume-messages",
    noun="message",
    title="Volume messages",
    icon="bell",
    service="volume",
    one="message",
    rule="message:get_all",
    reader=ItemReader(_list, _get, "message:get"),
    sorting="sort",
    empty="Messages explain why an accepted request failed. They are kept for 30 days.",
    name_of=lambda item: str(item["user_message"]),
    columns=(
        Column("Message", columns.text("user_message")),
        Column("When", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Request", columns.mono("request_id"), is_in_list=False),
        Column("Expires", columns.time("guaranteed_until"), is_in_list=False),
    ),
)
