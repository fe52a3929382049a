"""Keys of a test run: conductors have one from the start, hosts get theirs when a test enrolls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conductor.api_db.models import ConductorKey
from conductor.core.context import system_context
from conductor.rpc import envelope, identities, keys
from conductor.rpc.broker import CONDUCTOR_QUEUE
from conductor.rpc.codec import encode
from conductor.rpc.envelope import CONDUCTOR, Signer, SigningKey
from conductor.rpc.identities import Credentials, HostIdentity
from conductor.rpc.key_store import STORE, KnownConductorKey, KnownKeys
from conductor.rpc.keys import KnownHostKey
from conductor.services.hosts import keys as host_keys

_KEY = SigningKey.new()


def install(*hosts: Credentials) -> None:
    """Have the conductors sign with the key of this run, and these hosts be known, without a database."""
    signer = envelope.signer(CONDUCTOR, _KEY)
    public = envelope.public_key(_KEY.public_text)
    known = {
        key.key_id: KnownHostKey(host.host, host.cell, envelope.public_key(key.public_text))
        for host in hosts
        for key in host.keys
    }
    STORE.install(KnownKeys(known, (KnownConductorKey(_KEY.key_id, _KEY.public_text, 0.0, None, signer, public),)))
    keys.use(STORE)


def serve(host: str, cell: str) -> HostIdentity:
    """Return a host of this process that is known; nothing is kept of it anywhere."""
    made = identities.new(host, cell, {_KEY.key_id: _KEY.public_text})
    install(made)
    identity = HostIdentity(Path("/nowhere"), made)
    keys.serve_as(identity)
    return identity


def enroll(folder: Path, host: str, cell: str) -> HostIdentity:
    """Enroll a host as an operator does, and serve it in this process."""
    if not ConductorKey.objects.exists():
        STORE.install(None)  # the first use makes one
    made = host_keys.enroll(system_context(), host, cell)
    path = identities.path_of(folder, host)
    identities.write(path, made)
    identity = HostIdentity(path, made)
    keys.serve_as(identity)
    return identity


def sealed(signer: Signer, cell: str, message: Any, **changes: Any) -> dict[str, Any]:
    """Return a message to the conductor of a cell as it travels; `changes` are made to its envelope after it was
    signed.
    """
    values = {"cell": cell, **encode(message)}
    return {**signer.seal(values["message"], f"{CONDUCTOR_QUEUE}.{cell}", values), **changes}
