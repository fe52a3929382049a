"""Parts of a transaction that can be undone by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from conductor.sql.dialect import run

_numbers = itertools.count()


@contextmanager
def savepoint(using: str) -> Iterator[None]:
    """What fails inside is undone, with its `on_commit` hooks; what was done before stays. Inside a transaction.

    As a nested `atomic` of Django's, whose bookkeeping costs several times what the database does for it.
    """
    connection = connections[using]
    name = f"step{next(_numbers)}"  # hooks know by it what they belong to; the database means its newest one
    run(connection, "SAVEPOINT step")
    connection.savepoint_ids.append(name)
    try:
        yield
    except BaseException:
        connection.needs_rollback = False
        run(connection, "ROLLBACK TO SAVEPOINT step")
        connection.run_on_commit = [entry for entry in connection.run_on_commit if name not in entry[0]]
        raise
    finally:
        connection.savepoint_ids.remove(name)
        run(connection, "RELEASE SAVEPOINT step")
