"""Triggers of allocated addresses, which models cannot describe.

Addresses are given back in many ways, also with their port, router or network. A trigger sees each of them.
"""

from typing import Any

from conductor.db.triggers import Trigger, create

TABLE = "network_addressallocation"
FREED = "INSERT INTO network_freedaddress (subnet_id, number) VALUES (OLD.subnet_id, OLD.number) ON CONFLICT DO NOTHING"
TAKEN = "DELETE FROM network_freedaddress WHERE subnet_id = NEW.subnet_id AND number = NEW.number"
COUNTED = "INSERT INTO network_shareentry (subnet_id, project_id, addresses) VALUES ({0}.subnet_id, {0}.guest, {1})"
TRIGGERS = (
    # FreedAddress: an address enters when its allocation is deleted, and leaves when it is allocated again.
    Trigger("network_address_freed", "DELETE", "OLD.number <> ''", FREED),
    Trigger("network_address_taken", "INSERT", "NEW.number <> ''", TAKEN),
    Trigger("network_share_raised", "INSERT", "NEW.guest <> ''", COUNTED.format("NEW", 1)),
    Trigger("network_share_lowered", "DELETE", "OLD.guest <> ''", COUNTED.format("OLD", -1)),
)


def create_triggers(apps: Any, schema_editor: Any) -> None:
    create(schema_editor, TABLE, TRIGGERS)
