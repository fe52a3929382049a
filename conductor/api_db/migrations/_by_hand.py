"""Triggers of instance mappings, which models cannot describe: they keep the ledger of what projects use."""

from typing import Any

from conductor.db.triggers import Trigger, create

TABLE = "api_db_instancemapping"
ENTRY = (
    "INSERT INTO api_db_usageentry (project_id, user_id, instances, cores, ram) "
    "SELECT {0}.project_id, {0}.user_id, {1}1, {1}{0}.vcpus, {1}{0}.memory_mb WHERE NOT {0}.is_deleted"
)
ADDED, REMOVED = ENTRY.format("NEW", ""), ENTRY.format("OLD", "-")
COUNTED = ("project_id", "user_id", "vcpus", "memory_mb", "is_deleted")
IS_CHANGED = " OR ".join(f"OLD.{column} <> NEW.{column}" for column in COUNTED)
TRIGGERS = (
    Trigger("api_db_usage_added", "INSERT", "NOT NEW.is_deleted", ADDED),
    Trigger("api_db_usage_removed", "DELETE", "NOT OLD.is_deleted", REMOVED),
    Trigger("api_db_usage_changed", f"UPDATE OF {', '.join(COUNTED)}", IS_CHANGED, f"{REMOVED}; {ADDED}"),
)


def create_triggers(apps: Any, schema_editor: Any) -> None:
    create(schema_editor, TABLE, TRIGGERS)
