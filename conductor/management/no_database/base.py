"""Database backend for processes that must not use any: every access is a bug of ours."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db.backends.dummy import base as dummy

from conductor.core.errors import NovellaError


class NoDatabaseHere(NovellaError):
    """A compute agent asked a database for something: a host holds none, and asks its conductor by message."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoDatabaseHere()


class DatabaseOperations(dummy.DatabaseOperations):
    quote_name = _refuse


class DatabaseWrapper(dummy.DatabaseWrapper):
    ops_class = DatabaseOperations
    ensure_connection = connect = cursor = _cursor = _commit = _rollback = _savepoint = _refuse
    _savepoint_commit = _savepoint_rollback = _set_autocommit = _refuse
