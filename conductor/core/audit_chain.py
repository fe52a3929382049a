"""The seals of the audit log: who writes a record signs it, and each seal covers the record's and the one before it.

All digests are keyed: who can write to a database only, and does not hold the key, can make none of them.
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

CONTENT = (
    "uuid", "action", "result", "user_id", "user_name", "asker_project_id", "on_behalf_of", "project_id", "run_uuid",
    "instance_uuid", "reason", "error", "details", "request_id", "remote_address", "created_at",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A place in the chain of one database: the number and the digest of a sealed record. It begins before number 1."""

    number: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Sealed:
    """A record as it lies in its database, or in a file. `content` has a value for each name of CONTENT."""

    place: Place
    signature: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Chain:
    """The chain of one database. `key` is the deployment's secret."""

    key: bytes
    database: str

    def sign(self, content: Mapping[str, Any]) -> str:
        """The signature of a record's content, in this database."""
        return self.digest("record", *(plain(content[name]) for name in CONTENT))

    def follow(self, before: Place, signature: str) -> Place:
        """The place of the next record."""
        number = before.number + 1
        return Place(number, self.digest("seal", number, before.digest, signature))

    def digest(self, purpose: str, *said: Any) -> str:
        """A digest of anything plain, for one purpose."""
        text = json.dumps([purpose, self.database, *said], sort_keys=True, separators=(",", ":"))
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()

    def fault(self, begin: Place, end: Place, rows: Iterable[Sealed]) -> str:
        """What is wrong with the records after `begin` up to `end`, in the order of their numbers; "" for nothing."""
        at = begin
        for row in rows:
            number = row.place.number
            if number <= at.number or number > end.number:
                return f"{named(row)} was put in: there is no room for number {number}"
            if number > at.number + 1:
                return f"record {at.number + 1} is missing: the next one is number {number}"
            if not hmac.compare_digest(row.signature, self.sign(row.content)):
                return f"{named(row)} was changed"
            at = self.follow(at, row.signature)
            if not hmac.compare_digest(row.place.digest, at.digest):
                return f"{named(row)} is not the one that was sealed as number {number}"
        if at.number < end.number:
            return f"record {at.number + 1} is missing: {end.number} were sealed"
        return "" if at == end else f"the last seal is not that of record {at.number}"


def key_of(secret: str) -> bytes:
    """The key that a deployment's secret stands for: of no use for what else that secret signs."""
    return hashlib.sha256(b"novella audit log\0" + secret.encode()).digest()


def named(row: Sealed) -> str:
    """A record as a fault names it."""
    return f"record {row.place.number or 'without a seal'} ({row.content['uuid']}, {row.content['action']})"


def plain(value: Any) -> Any:
    """A value in the one form that it has before it is stored, in either kind of database, and in a file."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, float) and value.is_integer():
        return int(value)  # PostgreSQL makes no difference
    return str(value) if isinstance(value, UUID | str) else value  # of an enumeration its value
