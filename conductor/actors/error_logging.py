"""Errors of work that is repeated: an outage of the database is logged once, other errors each time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)


class ErrorLogger:
    """Logs once that the database is down for some work, and once that it is up again; other errors each time."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Context that logs errors, and never raises."""
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            if what not in self._failing:
                self._failing.add(what)
                log.error("%s: the database does not answer, tried again each time: %s", what, _first_line(error))
        except Exception:
            log.exception("failed: %s", what)
        else:
            if what in self._failing:
                self._failing.discard(what)
                log.warning("%s: the database answers again", what)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
