"""Keys of hosts and conductors in the API database, and the cells' data about steps and guests.

Changed keys are read again every few seconds. The last keys stay in use while the API database is down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connections
from django.db.models import Count, Max, Q

from conductor.api_db.models import ConductorKey, HostKey
from conductor.cell_db.models import Instance, Migration, ReceivedMessage
from conductor.core import sealing
from conductor.core.errors import Unavailable
from conductor.core.states import FINAL_MIGRATION_STATUSES
from conductor.db.transactions import database_now, write_tx
from conductor.journal import statements
from conductor.rpc import envelope
from conductor.rpc.envelope import CONDUCTOR, Signer, SigningKey
from conductor.rpc.keys import GuestPlaces, KnownHostKey

log = logging.getLogger(__name__)

PURPOSE = "novella conductor keys"
LOOK_SECONDS = 5.0  # between two reads of changed keys: the maximum delay of a revocation
UNKNOWN_LOOK_SECONDS = 0.5  # minimum between two reads because of unknown keys
MOVED_SECONDS = 600.0  # the source host may report on the guest for this long after a move


@dataclass(frozen=True)
class KnownConductorKey:
    """A key of the conductors. `signer` is None where this process cannot decrypt it with its secret key."""

    key_id: str
    public_text: str
    signs_from: float
    ends_at: float | None
    signer: Signer | None
    public: Ed25519PublicKey

    @property
    def counts(self) -> bool:
        return self.ends_at is None or time.time() < self.ends_at


@dataclass(frozen=True)
class KnownKeys:
    """Keys of the API database as last read. Keys of conductors come newest first."""

    hosts: Mapping[str, KnownHostKey] = field(default_factory=dict)
    conductors: tuple[KnownConductorKey, ...] = ()
    mark: tuple[object, ...] = ()

    @cached_property
    def _by_host(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key_id, key in self.hosts.items():
            found.setdefault(key.host, []).append(key_id)
        return found

    def has_host(self, host: str) -> bool:
        """Return whether there is a key of the host, valid or not."""
        return host in self._by_host

    def of_host(self, host: str) -> dict[str, KnownHostKey]:
        """Return the valid keys of a host, by id."""
        ids = self._by_host.get(host, ())
        return {key_id: self.hosts[key_id] for key_id in ids if self.hosts[key_id].counts}


class KeyStore:
    """The keys and message rights of a process with databases; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: KnownKeys | None = None
        self._looked_at = float("-inf")

    # -- signing

    def signer(self, known_to_host: Iterable[str] | None = None) -> Signer:
        usable = [key for key in self._conductors() if key.counts and key.signs_from <= time.time()]
        if known_to_host is not None:
            usable = [key for key in usable if key.key_id in set(known_to_host)] or usable
        for key in usable:
            if key.signer is not None:
                return key.signer
        raise Unavailable(
            "The conductors' key cannot be opened: it was encrypted with another secret key. Give every web and "
            "conductor process the same NOVELLA_SECRET_KEY, or make a new key: novella hosts rotate-conductors."
        )

    def conductor_keys(self) -> dict[str, str]:
        """Return the conductors' public keys that hosts should know, by id."""
        return {key.key_id: key.public_text for key in self._conductors() if key.counts}

    def _conductors(self) -> tuple[KnownConductorKey, ...]:
        """Return the conductors' keys. The first call creates the first key."""
        if not self.current().conductors:
            if not ConductorKey.objects.exists():
                add_conductor_key(after_seconds=0.0)
            self.refresh()
        return self.current().conductors

    # -- verification

    def conductor_key(self, key_id: str) -> Ed25519PublicKey | None:
        for wait in (LOOK_SECONDS, UNKNOWN_LOOK_SECONDS):
            for key in self.current(wait).conductors:
                if key.key_id == key_id and key.counts:
                    return key.public
        return None

    def host_key(self, key_id: str) -> KnownHostKey | None:
        """Return the host's key. A new key is found with hardly any delay."""
        found = self.current().hosts.get(key_id) or self.current(UNKNOWN_LOOK_SECONDS).hosts.get(key_id)
        return found if found is not None and found.counts else None

    # -- what a host may send messages about

    def is_enrolled(self, host: str) -> bool:
        return self.current().has_host(host)

    def steps(self, cell: str, step_key: str) -> set[tuple[str, str]]:
        rows = statements.hosts_of_step(connections[cell], step_key)
        return {(host, str(run_uuid).replace("-", "")) for host, run_uuid in rows}

    def guest_places(self, cell: str, host: str, instance_uuids: set[UUID]) -> GuestPlaces:
        rows = Instance.objects.using(cell).filter(uuid__in=instance_uuids).values_list("uuid", "host", "deleted_at")
        places = {uuid: (place, gone) for uuid, place, gone in rows}
        own = {uuid for uuid, (place, _) in places.items() if place == host}
        elsewhere = {uuid for uuid, (place, gone) in places.items() if place and gone is None and uuid not in own}
        if elsewhere:
            moving = _moving(cell, host, elsewhere)
            own, elsewhere = own | moving, elsewhere - moving
        return GuestPlaces(frozenset(own), frozenset(elsewhere))

    def is_first(self, cell: str, digest: str, seconds: float) -> bool:
        received = ReceivedMessage.objects.using(cell)
        try:
            with write_tx(cell):
                received.filter(received_at__lt=database_now(-seconds)).delete()
                received.create(digest=digest, received_at=database_now())
        except IntegrityError:
            return False
        return True

    # -- the API database

    def current(self, seconds: float | None = None) -> KnownKeys:
        """Return the cached keys, read again where the last read is `seconds` old.

        Raises DatabaseError before the first read has succeeded.
        """
        wait = LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS)
        if self._known is None or time.monotonic() - self._looked_at >= wait:
            self._look()
        assert self._known is not None
        return self._known

    def refresh(self) -> None:
        """Read the keys again, now. Raises DatabaseError."""
        self.install(self._load(_mark()))

    def install(self, known: KnownKeys | None) -> None:
        """Set the cached keys until the next read. With None they are read at the next use."""
        with self._lock:
            self._known, self._looked_at = known, time.monotonic() if known is not None else float("-inf")

    def _look(self) -> None:
        try:
            mark = _mark()
            if self._known is None or self._known.mark != mark:
                self.install(self._load(mark))
        except (DatabaseError, InterfaceError) as error:
            if self._known is None:
                raise
            log.warning("keys cannot be looked at, those known are used: %s", type(error).__name__)
        self._looked_at = time.monotonic()

    def _load(self, mark: tuple[object, ...]) -> KnownKeys:
        hosts = {
            row.key_id: KnownHostKey(
                row.host, row.cell, envelope.public_key(row.public_key), row.is_due, _seconds(row.ends_at)
            )
            for row in HostKey.objects.all()
        }
        opened = {key.key_id: key for key in (self._known.conductors if self._known is not None else ())}
        rows = ConductorKey.objects.order_by("-number")
        return KnownKeys(hosts, tuple(_known_key(row, opened.get(row.key_id)) for row in rows), mark)


STORE = KeyStore()


def add_conductor_key(*, after_seconds: float) -> str:
    """Create a key that signs after so many seconds. Return its id, or the id of another process's new key."""
    key = SigningKey.new()
    number = (ConductorKey.objects.aggregate(last=Max("number"))["last"] or 0) + 1
    try:
        with write_tx():
            ConductorKey.objects.create(
                number=number,
                key_id=key.key_id,
                public_key=key.public_text,
                encrypted_private_key=_box().encrypt(key.private_text.encode()).decode(),
                signs_from=database_now(after_seconds),
                created_at=database_now(),
                updated_at=database_now(),
            )
    except IntegrityError:
        return ConductorKey.objects.get(number=number).key_id
    return key.key_id


def _moving(cell: str, host: str, instance_uuids: set[UUID]) -> set[UUID]:
    """Return those of the guests that move to or from the host, or did so recently."""
    of_host = Q(source_host=host) | Q(destination_host=host)
    is_recent = ~Q(status__in=FINAL_MIGRATION_STATUSES) | Q(updated_at__gt=database_now(-MOVED_SECONDS))
    rows = Migration.objects.using(cell).filter(of_host, is_recent, instance_uuid__in=instance_uuids)
    return set(rows.values_list("instance_uuid", flat=True))


def _mark() -> tuple[object, ...]:
    """Return a value that changes with the keys."""
    seen = (model.objects.aggregate(count=Count("id"), last=Max("updated_at")) for model in (HostKey, ConductorKey))
    return tuple((one["count"], one["last"]) for one in seen)


def _known_key(row: ConductorKey, before: KnownConductorKey | None) -> KnownConductorKey:
    """Return a conductors' key of a row, decrypted; keys decrypted `before` are reused."""
    return KnownConductorKey(
        key_id=row.key_id,
        public_text=row.public_key,
        signs_from=row.signs_from.timestamp(),
        ends_at=_seconds(row.ends_at),
        signer=before.signer if before is not None else _opened(row),
        public=envelope.public_key(row.public_key),
    )


def _opened(row: ConductorKey) -> Signer | None:
    try:
        text = _box().decrypt(row.encrypted_private_key.encode()).decode()
    except InvalidToken:
        log.error("the conductors' key %s was encrypted with another secret key", row.key_id)
        return None
    return envelope.signer(CONDUCTOR, SigningKey.from_text(text))


def _box() -> Fernet:
    return sealing.box(settings.SECRET_KEY, PURPOSE)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
