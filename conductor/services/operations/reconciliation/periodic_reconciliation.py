"""The periodic reconciliation of all databases, in one process at a time."""

from __future__ import annotations

import logging

from django.conf import settings

from conductor.cells.lookup import API_ALIAS
from conductor.journal import periodic_leases
from conductor.services.operations.reconciliation import reconciler

log = logging.getLogger(__name__)

NAME = "reconcile"


def carry_out(owner: str) -> bool:
    """Reconcile if that is due and no other process does it; returns whether this process did."""
    every = settings.NOVELLA_RECONCILE_SECONDS
    if not every:
        return False
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=every) as lease:
        if lease is None:
            return False
        report = reconciler.reconcile(before_write=lease.require)
        if report.down:
            log.warning("reconciled without the cells that did not answer: %s", ", ".join(sorted(report.down)))
    return True
