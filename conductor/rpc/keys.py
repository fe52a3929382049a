"""The signing keys and the known public keys of this process. `key_store` stores them.

An agent has the identities of its hosts, and no database. Every other process also has an `Authority`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from conductor.core.errors import NotFound, Unavailable
from conductor.rpc import envelope
from conductor.rpc.envelope import CONDUCTOR, SCHEDULER, Signer
from conductor.rpc.identities import HostIdentity


@dataclass(frozen=True)
class KnownHostKey:
    """A host's public key. It is valid until `ends_at`, in seconds since 1970. With `is_due` the host should replace
    it.
    """

    host: str
    cell: str
    public: Ed25519PublicKey
    is_due: bool = False
    ends_at: float | None = None

    @property
    def counts(self) -> bool:
        return self.ends_at is None or time.time() < self.ends_at


@dataclass(frozen=True)
class GuestPlaces:
    """The guests of a query that are at a host or move to or from it, and those that are at other hosts."""

    own: frozenset[UUID]
    elsewhere: frozenset[UUID]


class Authority(Protocol):
    """Keys, hosts, steps and guests, for a process with databases. All methods raise DatabaseError."""

    def signer(self, known_to_host: Iterable[str] | None = None) -> Signer:
        """Return the conductors' current signer, or one that uses a key which the host knows, where these are given.

        Raises Unavailable if there is none.
        """

    def conductor_key(self, key_id: str) -> Ed25519PublicKey | None:
        """Return the conductors' key with this id, while it is valid."""

    def host_key(self, key_id: str) -> KnownHostKey | None:
        """Return the host's key with this id, while it is valid."""

    def is_enrolled(self, host: str) -> bool:
        """Return whether a host of this name has a key, valid or not."""

    def steps(self, cell: str, step_key: str) -> set[tuple[str, str]]:
        """Return the host that a step was sent to, and the hex digits of its run. Empty for an unknown step."""

    def guest_places(self, cell: str, host: str, instance_uuids: set[UUID]) -> GuestPlaces:
        """Return which of the guests the host may send messages about."""

    def is_first(self, cell: str, digest: str, seconds: float) -> bool:
        """Whether no process of the cell has seen this digest within so many seconds."""


_identities: dict[str, HostIdentity] = {}
_authority: Authority | None = None


def use(authority: Authority | None) -> None:
    """Let this process sign and verify with the conductors' keys."""
    global _authority
    _authority = authority


def authority() -> Authority:
    """Return the authority. Raises Unavailable in a process without databases."""
    if _authority is None:
        raise Unavailable("This process has no keys of the conductors.")
    return _authority


def serve_as(identity: HostIdentity) -> None:
    """Sign as this host from now on, and accept the conductors that it knows."""
    _identities[identity.host] = identity


def identity_of(host: str) -> HostIdentity | None:
    """Return the identity of a host that this process serves."""
    return _identities.get(host)


def signer_of_host(host: str) -> Signer:
    """Return the signer of a host. Raises NotFound for a host without an identity here."""
    identity = _identities.get(host)
    if identity is None:
        raise NotFound(f"There is no key for host {host} here: it is not enrolled.")
    return identity.signer


def public_key_of(sealed: envelope.Envelope) -> Ed25519PublicKey | None:
    """Return the key that an envelope names, if it is a valid key of its sender.

    A host finds conductors' keys in its identity. A process with databases finds all keys there.
    """
    if sealed.recipient.startswith(envelope.HOST_PREFIX):
        identity = identity_of(sealed.recipient.removeprefix(envelope.HOST_PREFIX))
        return None if identity is None else identity.conductor_key(sealed.key_id)
    # schedulers share the conductors' keys, as both have access to the databases
    if sealed.sender in (CONDUCTOR, SCHEDULER):
        return authority().conductor_key(sealed.key_id)
    key = authority().host_key(sealed.key_id)
    return key.public if key is not None and key.host == sealed.host else None
