"""The periodic pass: one of all processes does it, for all databases."""

from __future__ import annotations

import logging

from django.conf import settings

from conductor.cells.lookup import API_ALIAS
from conductor.journal import periodic_leases
from conductor.services.reconciliation import reconciler

log = logging.getLogger(__name__)

NAME = "reconcile"


def carry_out(owner: str) -> bool:
    """Reconcile if it is due and nobody else does it; whether this process did."""
    every = settings.NOVELLA_RECONCILE_SECONDS
    if not every:
        return False
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=every) as lease:
        if lease is None:
            return False
        report = reconciler.reconcile(before_write=lease.require)
        if report.silent:
            log.warning("reconciled without the cells that did not answer: %s", ", ".join(sorted(report.silent)))
    return True
