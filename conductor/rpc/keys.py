"""The keys that this process signs with, and the public keys that it knows; see `key_store` for where they lie.

An agent has the identities of its hosts, and no database. Every other process has an `Authority` besides.
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
from conductor.rpc.envelope import CONDUCTOR, Signer
from conductor.rpc.identities import HostIdentity


@dataclass(frozen=True)
class KnownHostKey:
    """A host's public key; it counts until `ends_at`, in seconds since 1970. `is_due`: the host is to replace it."""

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
    """Of some guests, those that a host has, or that move to or from it; and those that live on other hosts."""

    own: frozenset[UUID]
    elsewhere: frozenset[UUID]


class Authority(Protocol):
    """What a process with databases knows of keys, hosts, steps and guests. All of it raises DatabaseError."""

    def signer(self, known_to_host: Iterable[str] | None = None) -> Signer:
        """What signs for the conductors now; of the keys that a host knows, where those are said.

        Raises Unavailable where none can be used.
        """

    def conductor_key(self, key_id: str) -> Ed25519PublicKey | None:
        """The conductors' key with this id, while it counts."""

    def host_key(self, key_id: str) -> KnownHostKey | None:
        """The host's key with this id, while it counts."""

    def steps(self, cell: str, step_key: str) -> set[tuple[str, str]]:
        """The host that a step was sent to and the hex digits of its run; empty where nothing is known of it."""

    def guest_places(self, cell: str, host: str, instance_uuids: set[UUID]) -> GuestPlaces:
        """Which of the guests the host may speak of."""


_identities: dict[str, HostIdentity] = {}
_authority: Authority | None = None


def use(authority: Authority | None) -> None:
    """Have this process sign and check as the conductors do."""
    global _authority
    _authority = authority


def authority() -> Authority:
    """Raises Unavailable in a process without databases."""
    if _authority is None:
        raise Unavailable("This process has no keys of the conductors.")
    return _authority


def serve_as(identity: HostIdentity) -> None:
    """Sign as this host from now on, and obey the conductors that it knows."""
    _identities[identity.host] = identity


def identity_of(host: str) -> HostIdentity | None:
    """The identity of a host that this process serves."""
    return _identities.get(host)


def signer_of_host(host: str) -> Signer:
    """Raises NotFound for a host that has no identity here."""
    identity = _identities.get(host)
    if identity is None:
        raise NotFound(f"There is no key for host {host} here: it is not enrolled.")
    return identity.signer


def public_key_of(sealed: envelope.Envelope) -> Ed25519PublicKey | None:
    """The key that an envelope names, where it is one of its sender's that counts.

    A host knows conductors by its identity; a process with databases knows both by theirs.
    """
    if sealed.recipient.startswith(envelope.HOST_PREFIX):
        identity = identity_of(sealed.recipient.removeprefix(envelope.HOST_PREFIX))
        return None if identity is None else identity.conductor_key(sealed.key_id)
    if sealed.sender == CONDUCTOR:
        return authority().conductor_key(sealed.key_id)
    key = authority().host_key(sealed.key_id)
    return key.public if key is not None and key.host == sealed.host else None
