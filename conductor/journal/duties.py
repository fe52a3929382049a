"""Work that one process does for all: a row per database and duty says who has it now, and when it was last done.

The row's lease elects one of all processes; the time of the last end keeps the others from doing it again at once. A
process that dies in between loses the duty with its lease.
"""

from __future__ import annotations

from django.db.models import Q

from conductor.journal.models import Duty
from conductor.transactions import database_now, write_tx


def take(alias: str, name: str, owner: str, *, every_seconds: float, lease_seconds: float) -> bool:
    """Whether `owner` has the duty now: nobody else does, and it was not done within the last `every_seconds`."""
    duties = Duty.objects.using(alias)
    if not duties.filter(name=name).exists():
        with write_tx(alias):
            duties.get_or_create(name=name)
    free = Q(owner="") | Q(owner=owner) | Q(lease_expires_at__lt=database_now())
    due = Q(done_at__isnull=True) | Q(done_at__lte=database_now(-every_seconds))
    mine = duties.filter(free, due, name=name)
    if not mine.exists():  # the usual answer, which needs no write
        return False
    with write_tx(alias):
        return bool(mine.update(owner=owner, lease_expires_at=database_now(lease_seconds)))


def keep(alias: str, name: str, owner: str, *, lease_seconds: float) -> bool:
    """Renew the lease; False when somebody else has the duty by now, and this owner must stop."""
    with write_tx(alias):
        mine = Duty.objects.using(alias).filter(name=name, owner=owner)
        return bool(mine.update(lease_expires_at=database_now(lease_seconds)))


def done(alias: str, name: str, owner: str) -> None:
    """Let go of the duty until it is due again."""
    with write_tx(alias):
        mine = Duty.objects.using(alias).filter(name=name, owner=owner)
        mine.update(owner="", lease_expires_at=None, done_at=database_now())


def give_up(alias: str, name: str, owner: str) -> None:
    """Let go of the duty without having done it: whoever asks next may have it."""
    with write_tx(alias):
        Duty.objects.using(alias).filter(name=name, owner=owner).update(owner="", lease_expires_at=None)
