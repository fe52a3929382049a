"""Locking a server against its own project: an owner's lock, or an administrator's, which the owner cannot open."""

from __future__ import annotations

from typing import Any

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.services import instant_runs
from conductor.services.instance_queries import missing
from conductor.services.instant_runs import Deed
from conductor.services.server_actions import cell_of
from conductor.transactions import database_now, write_tx

OWNER, ADMIN = "owner", "admin"
LOCK = Deed(action="lock", event="api_lock", title="Lock")
UNLOCK = Deed(action="unlock", event="api_unlock", title="Unlock")


def lock(context: RequestContext, instance_uuid: str, reason: str | None = None) -> str:
    """Lock the server; the uuid of the record. What the owner asks for on a locked server changes nothing."""
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        instance = _hold(alias, instance_uuid)
        if not (instance.is_locked and _who(context, instance) == OWNER):
            _change(alias, instance, is_locked=True, locked_by=_who(context, instance), locked_reason=reason)
        return str(instant_runs.record(alias, context, instance, LOCK).uuid)


def unlock(context: RequestContext, instance_uuid: str, *, may_override: bool) -> str:
    """Unlock the server; the uuid of the record. `may_override`: whether the asker may open another's lock.

    Raises Forbidden when somebody else holds it and the asker may not.
    """
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        instance = _hold(alias, instance_uuid)
        is_anothers = instance.locked_by not in ("", _who(context, instance))
        if instance.is_locked and is_anothers and not may_override:
            rule = "os_compute_api:os-lock-server:unlock:unlock_override"
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.", rule=rule)
        _change(alias, instance, is_locked=False, locked_by="", locked_reason=None)
        return str(instant_runs.record(alias, context, instance, UNLOCK).uuid)


def _hold(alias: str, instance_uuid: str) -> Instance:
    instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).select_for_update().first()
    if instance is None:
        raise missing(instance_uuid)
    return instance


def _who(context: RequestContext, instance: Instance) -> str:
    return OWNER if context.project_id == instance.project_id else ADMIN


def _change(alias: str, instance: Instance, **values: Any) -> None:
    Instance.objects.using(alias).filter(pk=instance.pk).update(**values, updated_at=database_now())
    events.append(
        alias, events.about_instance(instance.uuid, instance.project_id), "instance.updated", {"changed": ["is_locked"]}
    )
