"""The periodic pass: one of all processes does it, for all databases."""

from __future__ import annotations

import logging

from django.conf import settings

from conductor.cells.lookup import API_ALIAS
from conductor.journal import duties
from conductor.services.reconciliation import reconciler

log = logging.getLogger(__name__)

NAME = "reconcile"
# A pass reads whole tables: of the largest clouds that takes a while.
LEASE_SECONDS = 600.0


def carry_out(owner: str) -> bool:
    """Reconcile if it is due and nobody else does it; whether this process did."""
    every = settings.NOVELLA_RECONCILE_SECONDS
    if not every or not duties.take(API_ALIAS, NAME, owner, every_seconds=every, lease_seconds=LEASE_SECONDS):
        return False
    try:
        report = reconciler.reconcile()
    except BaseException:
        duties.give_up(API_ALIAS, NAME, owner)
        raise
    duties.done(API_ALIAS, NAME, owner)
    if report.silent:
        log.warning("reconciled without the cells that did not answer: %s", ", ".join(sorted(report.silent)))
    return True
