"""Raw SQL statements of identity: those of every request.

Each names its index, and why the ORM is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.dialect import Row, padded, places, run

_RIGHTS_VERSION = "SELECT number FROM identity_rightsversion WHERE id = %s"
_SESSIONS = "SELECT session_key, session_data FROM django_session WHERE expire_date > %s AND session_key IN"


def rights_version(connection: BaseDatabaseWrapper, row_id: int) -> int:
    """Return the version number of rights; 0 while there is none.

    Index: the primary key. Raw SQL, as every process reads it again and again to validate tokens from memory.
    """
    rows = run(connection, _RIGHTS_VERSION, (row_id,))
    return int(rows[0][0]) if rows else 0


def unexpired_sessions(connection: BaseDatabaseWrapper, keys: Sequence[str], now: datetime) -> list[Row]:
    """Return keys and encoded data of the sessions with these keys that end after `now`.

    Index: the primary key. Raw SQL, as live pages check the sessions of all viewers in one query again and again.
    """
    if not keys:
        return []
    among = padded(keys)
    params = (connection.ops.adapt_datetimefield_value(now), *among)
    return run(connection, f"{_SESSIONS} ({places(among)})", params)
