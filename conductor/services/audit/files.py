"""Audit log files, written so that each record can be verified later without its database."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from conductor.core.audit_chain import CONTENT, ChainPosition, plain
from conductor.core.errors import Invalid
from conductor.core.phrases import phrase
from conductor.services.audit import seals
from conductor.services.audit.audit import AuditView

COLUMNS = (
    "created_at", "action", "result", "user_name", "user_id", "actor_project_id", "on_behalf_of", "project_id",
    "run_uuid", "instance_uuid", "reason", "error", "details", "request_id", "remote_address",
    "uuid", "database", "seal", "signature", "digest",
)  # fmt: skip
AS_JSON = ("error", "details")
# Text that a spreadsheet takes for a formula gets an apostrophe before it, and so does an apostrophe, so that it can be
# removed.
GUARDED = ("=", "+", "-", "@", "\t", "\r", "'")
LARGEST_CELL = 2**20


def row_of(record: AuditView) -> list[str]:
    """Return the line of a record."""
    return [_cell(name, getattr(record, name)) for name in COLUMNS]


def faults(lines: Iterable[str]) -> Iterator[str]:
    """Return faults in the records of an audit file, and differences from the databases.

    Raises Invalid for another kind of file.
    """
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(lines)
    if tuple(next(reader, ())) != COLUMNS:
        raise Invalid(phrase("This is not an export of the audit log: its first line has other columns."))
    for line, cells in enumerate(reader, start=2):
        fault = _fault(dict(zip(COLUMNS, map(_bare, cells), strict=False)))
        if fault:
            yield f"line {line}: {fault}"


def _fault(cells: dict[str, str]) -> str:
    try:
        content = {name: _value(name, cells[name]) for name in CONTENT}
        place = ChainPosition(int(cells["seal"] or 0), cells["digest"])
    except (KeyError, ValueError):
        return "it is no record"
    chain = seals.chain_of(cells["database"])
    if not place.number:
        return ""  # it was not sealed when the file was written
    if cells["signature"] != chain.sign(content):
        return f"record {place.number} was changed"
    return seals.has(cells["database"], place)


def _cell(name: str, value: Any) -> str:
    if name in AS_JSON and value is not None:
        return json.dumps(plain(value))
    text = "" if value is None else str(plain(value))
    return f"'{text}" if text[:1] in GUARDED else text


def _bare(cell: str) -> str:
    return cell.removeprefix("'")


def _value(name: str, text: str) -> Any:
    if name in AS_JSON:
        return json.loads(text) if text else None
    if name == "created_at":
        return datetime.fromisoformat(text)
    return text or None if name in ("run_uuid", "instance_uuid") else text
