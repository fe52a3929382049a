"""Write transactions: fair on SQLite, plain elsewhere, and always short."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.db import connections, transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.db.models.sql import Query

# SQLite has one writer and an unfair busy loop: competing connections starve each other for seconds.
# One lock per file and process makes writers queue in order.
_writers: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


@contextmanager
def write_tx(using: str = "default") -> Iterator[None]:
    """A transaction that writes to the database behind alias `using`. Never do I/O inside."""
    gate = _writers[using] if connections[using].vendor == "sqlite" else nullcontext()
    with gate, transaction.atomic(using=using):
        yield


def one_at_a_time(using: str, *names: str) -> None:
    """Until this transaction ends, whoever else asks for one of `names` waits; inside `write_tx(using)`.

    For what is checked and then written where no row could be held, as a quota is: "project:<id>". Ask before the
    transaction holds rows, and for all names at once: they are taken in order, so nobody waits in a ring.
    """
    if connections[using].vendor == "postgresql":  # SQLite's writers are alone from the start
        with connections[using].cursor() as cursor:
            for name in sorted(set(names)):
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def database_now(plus_seconds: float = 0.0) -> Any:
    """The database's clock, as an expression: time that decides anything is never a worker's."""
    if not plus_seconds:
        return Now()
    delta: Combinable = Value(timedelta(seconds=plus_seconds), output_field=DurationField())
    return ExpressionWrapper(Now() + delta, output_field=DateTimeField())


def database_time(using: str = "default") -> datetime:
    """The database's clock as a value: for a time that several rows or databases must share to the digit."""
    query = Query(None)
    query.add_annotation(Now(), "now")
    (now,) = next(iter(query.get_compiler(using=using).results_iter()))
    return now  # type: ignore[no-any-return]
