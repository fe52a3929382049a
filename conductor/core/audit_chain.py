"""Chained signatures of the audit log: each record is signed, and each seal covers its record and the seal before it.

All digests are keyed: an attacker who can write to a database but does not have the key can make none of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from conductor.core.messages import Message, message

CONTENT = (
    "uuid", "action", "result", "user_id", "user_name", "actor_project_id", "on_behalf_of", "project_id", "run_uuid",
    "instance_uuid", "reason", "error", "details", "request_id", "remote_address", "created_at",
)  # fmt: skip


@dataclass(frozen=True)
class ChainPosition:
    """Position in the chain of one database: number and digest of a sealed record.

    The position before the first record has the number 0.
    """

    number: int = 0
    digest: str = ""


@dataclass(frozen=True)
class SealedRecord:
    """A record as its database or a file stores it. `content` has a value for each name of CONTENT."""

    place: ChainPosition
    signature: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Chain:
    """The chain of one database. `key` is the deployment's secret."""

    key: bytes
    database: str

    def sign(self, content: Mapping[str, Any]) -> str:
        """Return the signature of a record's content in this database."""
        return self.digest("record", *(plain(content[name]) for name in CONTENT))

    def follow(self, before: ChainPosition, signature: str) -> ChainPosition:
        """Return the position of the next record."""
        number = before.number + 1
        return ChainPosition(number, self.digest("seal", number, before.digest, signature))

    def digest(self, purpose: str, *reported: Any) -> str:
        """Return the keyed digest of plain values, for one purpose."""
        text = json.dumps([purpose, self.database, *reported], sort_keys=True, separators=(",", ":"))
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()

    def fault(self, begin: ChainPosition, end: ChainPosition, rows: Iterable[SealedRecord]) -> str:
        """Return the first fault among the records after `begin` and up to `end`, in the order of their numbers.

        Returns:
            An empty string where there is no fault.
        """
        at = begin
        for row in rows:
            number = row.place.number
            if number <= at.number or number > end.number:
                return message("audit.inserted", record=named(row), place=str(number))
            if number > at.number + 1:
                return message("audit.missing", number=str(at.number + 1), next=str(number))
            if not hmac.compare_digest(row.signature, self.sign(row.content)):
                return message("audit.changed", record=named(row))
            at = self.follow(at, row.signature)
            if not hmac.compare_digest(row.place.digest, at.digest):
                return message("audit.replaced", record=named(row), place=str(number))
        if at.number < end.number:
            return message("audit.missing_at_end", number=str(at.number + 1), sealed=str(end.number))
        return "" if at == end else message("audit.last_seal", number=str(at.number))


def key_of(secret: str) -> bytes:
    """Derive the audit key from a deployment's secret. It is useless for all else that the secret signs."""
    return hashlib.sha256(b"novella audit log\0" + secret.encode()).digest()


def named(row: SealedRecord) -> Message:
    """Return a message that names a record, for the text of a fault."""
    about = {"uuid": str(row.content["uuid"]), "action": str(row.content["action"])}
    if not row.place.number:
        return message("audit.unsealed_record", **about)
    return message("audit.record", number=str(row.place.number), **about)


def plain(value: Any) -> Any:
    """Convert a value to plain JSON that is the same before it is stored, from every kind of database, and from a
    file.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, float) and value.is_integer():
        return int(value)  # PostgreSQL does not distinguish them
    return str(value) if isinstance(value, UUID | str) else value  # of an enumeration, its value
