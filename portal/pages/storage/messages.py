"""Messages of the volume service: why an accepted request failed."""

from __future__ import annotations

from portal.pages.resources import columns
from portal.pages.resources.model import Column, Resource

PATH = "/volume/v3/messages"
MESSAGES = Resource(
    id="volume-messages",
    noun="message",
    title="Volume messages",
    icon="bell",
    service="volume",
    path=PATH,
    key="messages",
    one="message",
    rule="message:get_all",
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
