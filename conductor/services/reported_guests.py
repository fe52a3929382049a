"""Compares the guests that a host has with the instances that its cell places there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import FINAL_RUN_STATES, PowerState
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services import power_sync
from conductor.services.power_sync import Placed
from conductor.transactions import database_now

log = logging.getLogger(__name__)

# A report may be older than what the cell has learnt since: nothing follows from one alone.
ENOUGH_SIGHTINGS = 2
RARELY = 256  # reports between two orders to destroy the same guest, at most

KNOWN_POWER_STATES = frozenset(int(state) for state in PowerState)


@dataclass
class Unsettled:
    """Instances by uuid, with the number of reports in a row that did not fit the cell's rows.

    `strangers` are guests that do not belong on the host, `missing` instances that the host does not have, `odd` those
    whose guest does what their state does not say; `is_pending` says that an instance under work will have to be
    looked at again.
    """

    strangers: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)
    is_pending: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.strangers or self.missing or self.odd or self.is_pending)


def settle(cell: str, host: str, guests: Mapping[str, int], before: Mapping[str, Any]) -> Unsettled:
    """Take over power states and have guests destroyed that do not belong; inside `write_tx(cell)`.

    `guests` maps instance uuid to power state; `before` is what the host's report before left unsettled.
    """
    found = {uuid: state for text, state in guests.items() if (uuid := uuid_or_none(text)) is not None}
    unsettled = Unsettled()
    rows = Instance.objects.using(cell).alive().filter(host=host)
    placed = [Placed(*row) for row in rows.values_list(*Placed._fields)]
    for instance in placed:
        reported = found.get(instance.uuid)
        _compare(cell, instance, reported, before.get("missing", {}), unsettled)
        power_sync.look(cell, instance, reported, before.get("odd", {}), unsettled.odd)
    strangers = set(found) - {instance.uuid for instance in placed}
    if strangers:
        for uuid in _unwanted(cell, host, strangers):
            _turn_out(cell, host, uuid, before.get("strangers", {}), unsettled)
    return unsettled


def _compare(
    cell: str, instance: Placed, reported: int | None, missing_before: Mapping[str, int], unsettled: Unsettled
) -> None:
    is_known = reported is None or reported in KNOWN_POWER_STATES
    state = PowerState.NOSTATE if reported is None or not is_known else PowerState(reported)
    if state == instance.power_state:
        return
    if instance.task_state is not None:  # its workflow says what is true
        unsettled.is_pending = True
        return
    if reported is None:
        sightings = missing_before.get(str(instance.uuid), 0) + 1
        if sightings < ENOUGH_SIGHTINGS:
            unsettled.missing[str(instance.uuid)] = sightings
            return
    rows = Instance.objects.using(cell).filter(pk=instance.pk)
    rows.update(power_state=state, updated_at=database_now())
    events.append(
        cell, events.about_instance(instance.uuid, instance.project_id), "instance.updated", {"power_state": int(state)}
    )


def _unwanted(cell: str, host: str, strangers: set[UUID]) -> list[UUID]:
    """Of guests that are not placed here: those of deleted or moved instances without a live workflow.

    A guest whose instance this cell has never heard of is named and left alone: it may be somebody's data, and a
    cell that was brought back from an old copy must not wipe what was built since.
    """
    known = set(Instance.objects.using(cell).filter(uuid__in=strangers).values_list("uuid", flat=True))
    for uuid in sorted(strangers - known):
        log.warning("guest without an instance: host=%s guest=%s", host, uuid)
    under_work = set(
        WorkflowRun.objects.using(cell)
        .filter(instance_uuid__in=known)
        .exclude(state__in=FINAL_RUN_STATES)
        .values_list("instance_uuid", flat=True)
    )
    return sorted(known - under_work)


def _is_time(sightings: int) -> bool:
    """A host that answers and does not do it is told again, but ever more rarely: each answer brings a report."""
    return sightings & (sightings - 1) == 0 or sightings % RARELY == 0


def _turn_out(cell: str, host: str, uuid: UUID, seen_before: Mapping[str, int], unsettled: Unsettled) -> None:
    sightings = seen_before.get(str(uuid), 0) + 1
    unsettled.strangers[str(uuid)] = sightings
    if sightings < ENOUGH_SIGHTINGS or not _is_time(sightings):
        return
    outbox.owe_destroy(cell, host, uuid)
    log.warning("guest does not belong here and goes: host=%s instance=%s sightings=%d", host, uuid, sightings)
    if sightings == ENOUGH_SIGHTINGS:
        events.append(cell, events.about_host(host, uuid), "host.guest_turned_out")
