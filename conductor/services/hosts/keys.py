"""Host keys: enrolment, rotation without downtime, and revocation."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conductor.api_db.models import CellMapping, ConductorKey, HostEnrollment, HostKey, HostMapping
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotAuthenticated, NotFound
from conductor.db.transactions import database_now, write_tx
from conductor.rpc import broker, envelope, identities
from conductor.rpc.codec import encode
from conductor.rpc.identities import ANSWER_REQUESTED, KEYS, Credentials
from conductor.rpc.key_store import STORE, add_conductor_key
from conductor.rpc.messages import HostReported, KeysAnnounced
from conductor.rpc.trust import WINDOW_SECONDS
from conductor.services.audit import operator_audit

MOST_KEYS = 2  # of a host at a time
FORGET_SECONDS = 86_400.0  # how long after its end a key is deleted
TOKEN_SECONDS = 3_600.0
ROTATE_AFTER_SECONDS = 60.0  # so that hosts receive the conductors' next key before it signs
# within this time an offline host can still receive the next key, signed with the one that it knows
KEEP_OLD_SECONDS = 7 * 86_400.0


@dataclass(frozen=True)
class HostKeyView:
    """A key of a host, as operators see it."""

    host: str
    cell: str
    key_id: str
    created_at: datetime
    ends_at: datetime | None
    is_due: bool


@dataclass(frozen=True)
class EnrollmentResult:
    """The answer to a host that has enrolled its key."""

    host: str
    cell: str
    conductor_keys: Mapping[str, str]


# -- enrolment


def enroll(context: RequestContext, host: str, cell: str) -> Credentials:
    """Create a key for a host and return it. Only the result has the private key. Earlier keys expire within minutes.

    Raises NotFound for an unknown cell, Conflict for a host of another cell.
    """
    _require_cell(host, cell)
    made = identities.new(host, cell, STORE.conductor_keys())
    _add(host, cell, made.keys[0].public_text)
    _audit(context, "host.enroll", host, cell=cell, key_id=made.keys[0].key_id)
    return made


def create_token(context: RequestContext, host: str, cell: str, *, seconds: float = TOKEN_SECONDS) -> str:
    """Create a single-use token with which the host may enroll a key. Raises what `enroll` raises."""
    _require_cell(host, cell)
    token = secrets.token_hex(32)  # the token is passed on a command line, where one that begins with "-" is an option
    with write_tx():
        HostEnrollment.objects.filter(expires_at__lt=database_now()).delete()
        HostEnrollment.objects.create(
            host=host,
            cell=cell,
            token_hash=_hash(token),
            expires_at=database_now(seconds),
            created_at=database_now(),
        )
    _audit(context, "host.invite", host, cell=cell, seconds=seconds)
    return token


def redeem(context: RequestContext, token: str, public_key: str) -> EnrollmentResult:
    """Enroll the key of the host that the token was created for. The token can be used once.

    Raises NotAuthenticated for an invalid token, Invalid for an invalid key.
    """
    _require_key(public_key)
    with write_tx():
        rows = HostEnrollment.objects.filter(token_hash=_hash(token), expires_at__gt=database_now())
        found = rows.select_for_update().first()
        if found is None:
            raise NotAuthenticated("The token is unknown, was used, or is too old.")
        rows.delete()
        _add(found.host, found.cell, public_key)
    _audit(context, "host.enroll", found.host, cell=found.cell, key_id=envelope.key_id_of(public_key))
    return EnrollmentResult(found.host, found.cell, STORE.conductor_keys())


def adopt(credentials: Iterable[Credentials]) -> None:
    """Register the keys of hosts that run inside this process, and delete all others of these hosts."""
    wanted = {key.key_id: (one, key.public_text) for one in credentials for key in one.keys}
    hosts = {one.host for one, _ in wanted.values()}
    known = {key_id: (pk, host) for pk, key_id, host in HostKey.objects.values_list("pk", "key_id", "host")}
    with write_tx():
        for key_id, (pk, host) in known.items():
            if host in hosts and key_id not in wanted:
                HostKey.objects.filter(pk=pk).delete()
        new = [_row(one.host, one.cell, text) for key_id, (one, text) in wanted.items() if key_id not in known]
        HostKey.objects.bulk_create(new)
    STORE.refresh()


def _require_cell(host: str, cell: str) -> None:
    if not CellMapping.objects.filter(name=cell).exists():
        raise NotFound(f"There is no cell {cell}.")
    mapped = HostMapping.objects.filter(host=host).select_related("cell").first()
    if mapped is not None and mapped.cell.name != cell:
        raise Conflict(f"Host {host} belongs to cell {mapped.cell.name}.")
    other = HostKey.objects.filter(host=host).exclude(cell=cell).first()
    if other is not None:
        raise Conflict(f"Host {host} is enrolled in cell {other.cell}. Revoke its keys first.")


def _require_key(public_key: str) -> None:
    try:
        envelope.public_key(public_key)
    except ValueError:
        raise Invalid("The public key is not an Ed25519 key in base64.", field="public_key") from None


def _add(host: str, cell: str, public_key: str) -> None:
    """Add a key. Earlier ones stay valid as long as a message may be in transit."""
    with write_tx():
        HostKey.objects.filter(ends_at__lt=database_now(-FORGET_SECONDS)).delete()
        HostKey.objects.filter(host=host, ends_at=None).update(
            ends_at=database_now(WINDOW_SECONDS), updated_at=database_now()
        )
        _row(host, cell, public_key).save()
    STORE.refresh()


def _row(host: str, cell: str, public_key: str) -> HostKey:
    return HostKey(
        host=host,
        cell=cell,
        key_id=envelope.key_id_of(public_key),
        public_key=public_key,
        created_at=database_now(),
        updated_at=database_now(),
    )


# -- rotation and revocation


def list_keys(host: str = "") -> list[HostKeyView]:
    """Return the keys of all hosts, or of one, by host and age."""
    rows = HostKey.objects.filter(host=host) if host else HostKey.objects.all()
    return [
        HostKeyView(row.host, row.cell, row.key_id, row.created_at, row.ends_at, row.is_due)
        for row in rows.order_by("host", "created_at", "id")
    ]


def rotate(context: RequestContext, host: str) -> None:
    """Request that a host replaces its key with its next report. The host continues to work. Raises NotFound."""
    with write_tx():
        rows = HostKey.objects.filter(host=host, ends_at=None)
        if not rows.update(is_due=True, updated_at=database_now()):
            raise NotFound(f"Host {host} has no key.")
    STORE.refresh()
    _audit(context, "host.rotate_key", host)


def revoke(context: RequestContext, host: str) -> int:
    """Delete every key and token of a host. Return the number of keys. Its messages are refused within seconds."""
    with write_tx():
        HostEnrollment.objects.filter(host=host).delete()
        count, _ = HostKey.objects.filter(host=host).delete()
    STORE.refresh()
    _audit(context, "host.revoke_keys", host, keys=count)
    return count


def rotate_conductors(
    context: RequestContext, *, after_seconds: float = ROTATE_AFTER_SECONDS, keep_seconds: float = KEEP_OLD_SECONDS
) -> str:
    """Create the conductors' next key and return its id. Hosts receive it with their next report, before it signs.

    Earlier keys stay valid for `keep_seconds` after that: a host that is offline for longer must be enrolled again.
    """
    with write_tx():
        ConductorKey.objects.filter(ends_at__lt=database_now(-FORGET_SECONDS)).delete()
        ConductorKey.objects.filter(ends_at=None).update(
            ends_at=database_now(after_seconds + keep_seconds), updated_at=database_now()
        )
        key_id = add_conductor_key(after_seconds=after_seconds)
    STORE.refresh()
    _audit(context, "conductors.rotate_key", "", key_id=key_id)
    return key_id


def settle(message: HostReported, *, is_stored: bool = True) -> None:
    """Synchronize a host's keys and the conductors' with its report. Does nothing where they match.

    A host that requests an answer receives the keys once its report is stored, even where they match.
    """
    reported = message.report.get("capabilities", {}).get(KEYS)
    if not isinstance(reported, Mapping):
        return
    own, conductors = dict(reported.get("own") or {}), [str(key_id) for key_id in reported.get("conductors") or ()]
    is_requested = is_stored and ANSWER_REQUESTED in conductors
    conductors = [key_id for key_id in conductors if key_id != ANSWER_REQUESTED]
    _take_own(message.host, message.cell, own)
    known = STORE.current().of_host(message.host)
    replace = sorted(key_id for key_id in own if key_id in known and known[key_id].is_due)
    wanted = STORE.conductor_keys()
    if sorted(wanted) == conductors and not replace and not is_requested:
        return
    announced = KeysAnnounced(host=message.host, conductor_keys=wanted, accepted=sorted(known), replace=replace)
    broker.send_to_compute(broker.compute_queue(message.host), encode(announced), known_to_host=conductors)


def _take_own(host: str, cell: str, own: Mapping[str, Any]) -> None:
    """Accept a host's next key if one is due. End the old key once the host has only the new one."""
    known = STORE.current().of_host(host)
    new = [str(text) for key_id, text in own.items() if key_id not in known]
    if new and len(own) <= MOST_KEYS and any(key_id in known and known[key_id].is_due for key_id in own):
        for text in new:
            _require_key(text)
        with write_tx():
            HostKey.objects.bulk_create([_row(host, cell, text) for text in new], ignore_conflicts=True)
        STORE.refresh()
    elif (
        len(own) == 1
        and not new
        and any(key.is_due and key.ends_at is None for key_id, key in known.items() if key_id not in own)
    ):
        with write_tx():
            HostKey.objects.filter(host=host, is_due=True, ends_at=None).exclude(key_id__in=own).update(
                ends_at=database_now(WINDOW_SECONDS), updated_at=database_now()
            )
        STORE.refresh()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _audit(context: RequestContext, action: str, host: str, **details: Any) -> None:
    operator_audit.keep(context, action, reason="", error=None, details={"host": host, **details})
