"""Triggers, for migrations: both databases execute a statement for each row of a table that changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trigger:
    """`body` is executed after `event` (such as "INSERT") of each row for which `when` holds.

    They name the row before the event OLD, and after it NEW.
    """

    name: str
    event: str
    when: str
    body: str


def create(schema_editor: Any, table: str, triggers: Iterable[Trigger]) -> None:
    """Create triggers of a table. On PostgreSQL each has a function of its name."""
    for trigger in triggers:
        action = f"BEGIN {trigger.body}; END"
        if schema_editor.connection.vendor == "postgresql":
            function = f"BEGIN {trigger.body}; RETURN NULL; END"  # the value is ignored after an event
            schema_editor.execute(
                f"CREATE FUNCTION {trigger.name}() RETURNS trigger LANGUAGE plpgsql AS $${function}$$", params=None
            )
            action = f"EXECUTE FUNCTION {trigger.name}()"
        head = f"CREATE TRIGGER {trigger.name} AFTER {trigger.event} ON {table} FOR EACH ROW WHEN ({trigger.when})"
        schema_editor.execute(f"{head} {action}", params=None)
