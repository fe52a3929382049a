"""Seals of the audit log of each database, and checks that no record was changed since.

The writer of a record signs it and never waits for another one. A conductor numbers new records afterwards, in the
transaction that holds the chain's row. So there are no gaps, whichever transactions were rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Max, QuerySet

from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.audit_chain import CONTENT, Chain, ChainPosition, SealedRecord, key_of, named, plain
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden
from conductor.core.messages import message
from conductor.core.page import Page
from conductor.db.rows import Rows
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.journal import periodic_leases
from conductor.journal.models import AuditChain, AuditRecord

log = logging.getLogger(__name__)

ONLY = 1  # the id of the chain's one row
BATCH = 50  # other writers of a SQLite file wait for one batch
READ = 1000
# During an upgrade, old releases may write unsigned records beside new ones; afterwards unsigned records are not
# sealed.
UPGRADE_TIME = timedelta(days=1)
CHECK, CHECK_EVERY_SECONDS = "check audit", 3600.0
GONE = message("audit.row_gone")
RECORDS = Rows(AuditRecord, "id")  # the ORM composes one statement of thousands of words for a batch
TRIES = 3  # of a check that ran into pruning


@dataclass(frozen=True)
class SealView:
    """State of the audit log of one database. `trouble` is the fault that the last check found; empty for none."""

    database: str
    sealed: int
    unsealed: int
    number: int
    digest: str
    begun_at: datetime | None
    sealed_at: datetime | None
    checked_at: datetime | None
    trouble: str


def signed(alias: str, content: Mapping[str, Any]) -> str:
    """Return the signature of a record that is about to be written."""
    return chain_of(alias).sign(content)


def content_of(row: AuditRecord) -> dict[str, Any]:
    """Return the signed content of a record."""
    return {name: getattr(row, name) for name in CONTENT}


def seal(alias: str) -> int:
    """Seal unsealed records, except unsigned ones. Return how many. Raises Conflict for a broken chain."""
    count, after = 0, 0
    rows = AuditRecord.objects.using(alias).filter(seal=None)
    while rows.filter(pk__gt=after).exists():  # the typical answer is no, and needs no transaction
        with write_tx(alias):
            row = _held(alias)
            batch = list(rows.filter(pk__gt=after).order_by("pk")[:BATCH])
            sealed = _append(alias, row, batch)
        if not batch:
            break
        count, after = count + sealed, batch[-1].pk
        if sealed:  # a copy of these lines elsewhere is a witness that this database cannot change
            log.info("audit sealed: database=%s number=%s digest=%s", alias, row.head_number, row.head_digest)
    return count


def check(alias: str, *, before_write: Callable[[], None] = lambda: None) -> str:
    """Return the first fault of the audit log, and store it for the page once `before_write` permits. Empty for
    none.
    """
    found = _checked(alias)
    before_write()
    if found:
        log.error("audit log is not as it was written: database=%s %s", alias, found)
    with write_tx(alias):
        chain = AuditChain.objects.using(alias).filter(pk=ONLY)
        chain.update(checked_at=database_now(), trouble=found[:255])
    return found


def carry_out(alias: str, owner: str) -> None:
    """Seal new records, and check the whole log when that is due. A check logs why records cannot be sealed."""
    with suppress(Conflict):
        seal(alias)
    if not AuditChain.objects.using(alias).exists():  # nothing to check, and no row to store the time in
        return
    with periodic_leases.hold(alias, CHECK, owner, every_seconds=CHECK_EVERY_SECONDS) as lease:
        if lease is not None:
            check(alias, before_write=lease.require)


def state(context: RequestContext) -> Page[SealView]:
    """Return the state of each database's audit log, the API's first. For operators."""
    if not context.is_admin:
        raise Forbidden("The seals of the audit log are for operators.")
    found = scatter_gather(view, journal_aliases())
    return Page(
        [found.answers[alias] for alias in journal_aliases() if alias in found.answers], missing_cells=found.failures
    )


def view(alias: str) -> SealView:
    """Return the state of one database's audit log, with two short queries."""
    row = AuditChain.objects.using(alias).filter(pk=ONLY).first()
    if row is None:
        row = AuditChain(trouble=GONE if AuditRecord.objects.using(alias).exclude(seal=None).exists() else "")
    return SealView(
        database=alias,
        sealed=row.head_number - row.cut_number,
        unsealed=AuditRecord.objects.using(alias).filter(seal=None).count(),
        number=row.head_number,
        digest=row.head_digest,
        begun_at=row.begun_at,
        sealed_at=row.sealed_at,
        checked_at=row.checked_at,
        trouble=row.trouble,
    )


def cut(alias: str, rows: QuerySet[AuditRecord]) -> int:
    """Remove these sealed records, which are the oldest, and return how many.

    The chain continues from the last of them. None is removed if they differ from their seals: the evidence stays for
    an operator to see.
    """
    chain, row = chain_of(alias), _held(alias)
    oldest = _sealed(rows.order_by("seal"))
    last = oldest[-1].place if oldest else _cut(row)
    fault = chain.fault(_cut(row), last, oldest)
    if fault:
        log.error("audit log is not pruned: database=%s %s", alias, fault)
        return 0
    rows.delete()
    row.cut_number, row.cut_digest = last.number, last.digest
    _mark(alias, row)
    return len(oldest)


def has(alias: str, place: ChainPosition) -> str:
    """Return why a record was not sealed here with this digest, as a file or a log line claims. Empty if it was."""
    row = AuditChain.objects.using(alias).filter(pk=ONLY).first()
    if row is not None and place.number <= row.cut_number:
        return ""  # it was pruned
    kept = AuditRecord.objects.using(alias).filter(seal=place.number).values_list("digest", flat=True).first()
    if kept is None:
        return f"record {place.number} is missing"
    return "" if kept == place.digest else f"record {place.number} is another one"


def _append(alias: str, row: AuditChain, batch: Sequence[AuditRecord]) -> int:
    chain, at, sealed = chain_of(alias), _head(row), []
    is_early = database_time(alias) < row.begun_at + UPGRADE_TIME
    for record in batch:
        signature = chain.sign(content_of(record))
        if record.signature != signature and (record.signature or not is_early):
            continue
        at = chain.follow(at, signature)
        record.signature, record.seal, record.digest = signature, at.number, at.digest
        sealed.append(record)
    if sealed:
        RECORDS.update_each(
            connections[alias],
            {one.pk: {"signature": one.signature, "seal": one.seal, "digest": one.digest} for one in sealed},
        )
        row.head_number, row.head_digest = at.number, at.digest
        row.sealed_at = database_now()
        _mark(alias, row)
    return len(sealed)


def _checked(alias: str) -> str:
    for _ in range(TRIES):
        newest = AuditRecord.objects.using(alias).aggregate(newest=Max("seal"))["newest"] or 0
        row = AuditChain.objects.using(alias).filter(pk=ONLY).first()
        if row is None:
            return GONE if newest else ""
        wrong = _wrong_row(alias, row)
        if wrong:
            return wrong
        end = _head(row) if newest <= row.head_number else ChainPosition(newest)
        found = chain_of(alias).fault(_cut(row), end, _walk(alias, end.number)) or _unsigned(alias, row)
        now = AuditChain.objects.using(alias).filter(pk=ONLY).first()
        if not found or now is None or now.cut_number == row.cut_number:
            return found
    return found


def _walk(alias: str, last: int) -> Iterator[SealedRecord]:
    """Yield all records with a number up to `last`, a page at a time."""
    after, rows = None, AuditRecord.objects.using(alias).filter(seal__lte=last).order_by("seal")
    while page := _sealed((rows if after is None else rows.filter(seal__gt=after))[:READ]):
        yield from page
        after = page[-1].place.number


def _unsigned(alias: str, row: AuditChain) -> str:
    """Describe the first new record that will not be sealed."""
    chain = chain_of(alias)
    is_early = database_time(alias) < row.begun_at + UPGRADE_TIME
    for one in _sealed(AuditRecord.objects.using(alias).filter(seal=None).order_by("pk")):
        if one.signature != chain.sign(one.content) and (one.signature or not is_early):
            return message("audit.not_ours", record=named(one))
    return ""


def _sealed(rows: QuerySet[AuditRecord]) -> list[SealedRecord]:
    return [SealedRecord(ChainPosition(row.seal or 0, row.digest), row.signature, content_of(row)) for row in rows]


def _held(alias: str) -> AuditChain:
    """Return the chain's row, locked until the transaction ends. It is created if it is missing.

    Raises Conflict for a broken chain.
    """
    rows = AuditChain.objects.using(alias)
    if not rows.filter(pk=ONLY).exists():
        if AuditRecord.objects.using(alias).exclude(seal=None).exists():
            raise Conflict(f"The audit log in {alias} is not sealed any more: {GONE}.")
        first = AuditChain(pk=ONLY, key_id=_key_id(alias), begun_at=database_time(alias))
        first.mark = _marked(alias, first)
        rows.bulk_create([first], ignore_conflicts=True)
    row = rows.select_for_update().get(pk=ONLY)
    wrong = _wrong_row(alias, row)
    if wrong:
        raise Conflict(f"The audit log in {alias} is not sealed any more: {wrong}.")
    return row


def _wrong_row(alias: str, row: AuditChain) -> str:
    if row.key_id != _key_id(alias):
        return message("audit.other_key")
    return "" if row.mark == _marked(alias, row) else message("audit.row_changed")


def _mark(alias: str, row: AuditChain) -> None:
    row.mark = _marked(alias, row)
    row.save(using=alias)


def _marked(alias: str, row: AuditChain) -> str:
    return chain_of(alias).digest("chain", plain(row.begun_at), *_ends(_cut(row)), *_ends(_head(row)))


def _ends(place: ChainPosition) -> tuple[int, str]:
    return place.number, place.digest


def _cut(row: AuditChain) -> ChainPosition:
    return ChainPosition(row.cut_number, row.cut_digest)


def _head(row: AuditChain) -> ChainPosition:
    return ChainPosition(row.head_number, row.head_digest)


def _key_id(alias: str) -> str:
    return chain_of(alias).digest("key")[:16]


def chain_of(alias: str) -> Chain:
    """Return the chain of a database, which may have no row."""
    return Chain(key_of(settings.NOVELLA_AUDIT_KEY), alias)
