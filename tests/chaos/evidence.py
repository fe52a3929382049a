"""The checker's evidence: databases in plain SQL, the hosts' files, and responses to users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

Connection = psycopg.Connection[dict[str, Any]]


@dataclass(frozen=True)
class Evidence:
    """Where to look: a database per name ("api", "cell0", cells), the hosts' folder, and what people were answered."""

    databases: Mapping[str, str]
    agents: Path
    answers: Path
    _connections: dict[str, Connection] = field(default_factory=dict)

    def rows(self, database: str, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query, on a connection that is kept, as a new one is expensive. It may have been cut."""
        known = self._connections.pop(database, None)
        try:
            return self._ask(database, known, query)
        except psycopg.OperationalError:
            if known is None:
                raise
            return self._ask(database, None, query)

    def _ask(self, database: str, known: Connection | None, query: str) -> list[dict[str, Any]]:
        connection = known or psycopg.connect(self.databases[database], autocommit=True, row_factory=dict_row)
        try:
            rows = connection.execute(query).fetchall()
        except BaseException:
            connection.close()
            raise
        self._connections[database] = connection
        return rows

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    @property
    def cells(self) -> list[str]:
        return [name for name in self.databases if name != "api"]

    def everywhere(self, query: str) -> Iterable[tuple[str, dict[str, Any]]]:
        for name in self.databases:
            for row in self.rows(name, query):
                yield name, row

    def guests(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Host → uuid → note, of the guests that each host lists."""
        return {
            path.name.removesuffix(".guests.json"): json.loads(path.read_text() or "{}").get("guests", {})
            for path in sorted(self.agents.glob("*.guests.json"))
        }
