"""Identity of a host: its private keys and the conductors' public keys, in a file that only its owner can read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from conductor.core.errors import Unavailable
from conductor.rpc import envelope
from conductor.rpc.envelope import Signer, SigningKey

VERSION = 1
ANSWER_REQUESTED = ""  # in the list of known conductors' keys: no key has this id, so conductors answer with theirs
KEYS = "keys"  # the host's own keys and the known ones have this name among a report's capabilities
MODE = 0o600


class IdentityUnusable(Unavailable):
    """The file with the host's key cannot be used."""


@dataclass(frozen=True)
class Credentials:
    """The content of an identity: private keys, the signing one first, and the conductors' public keys by id."""

    host: str
    cell: str
    keys: tuple[SigningKey, ...]
    conductor_keys: Mapping[str, str]


def path_of(data_dir: Path, host: str) -> Path:
    """Return the path of a host's identity in a data folder."""
    return data_dir / "agents" / f"{host}.identity.json"


def new(host: str, cell: str, conductor_keys: Mapping[str, str]) -> Credentials:
    """Return the credentials of a host with a new key."""
    return Credentials(host, cell, (SigningKey.new(),), dict(conductor_keys))


def write(path: Path, credentials: Credentials, *, is_durable: bool = True) -> None:
    """Replace the file atomically. With `is_durable` it is on the disk when this returns. Raises OSError."""
    content = {
        "version": VERSION,
        "host": credentials.host,
        "cell": credentials.cell,
        "keys": [key.private_text for key in credentials.keys],
        "conductor_keys": dict(credentials.conductor_keys),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "w") as file:
        file.write(json.dumps(content, indent=2))
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
    part.replace(path)


def read(path: Path) -> Credentials:
    """Read an identity.

    Raises:
        FileNotFoundError: there is no such file.
        IdentityUnusable: the file is unreadable, or other users may read it.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise IdentityUnusable(f"{path} may be read by others: it has the host's private key. Run chmod 600 on it.")
        content = json.loads(path.read_text())
        keys = tuple(SigningKey.from_text(text) for text in content["keys"])
        pins = {str(key_id): str(text) for key_id, text in content["conductor_keys"].items()}
        for text in pins.values():
            envelope.public_key(text)
        if not keys or not pins:
            raise IdentityUnusable(f"{path} lacks a key.")
        return Credentials(str(content["host"]), str(content["cell"]), keys, pins)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IdentityUnusable(f"{path} cannot be read ({type(error).__name__}). Enroll the host again.") from None


class HostIdentity:
    """The identity of a host that this process serves; thread-safe."""

    def __init__(self, path: Path, credentials: Credentials) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.is_answer_requested = False
        self._take(credentials)

    def _take(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.signer: Signer = envelope.signer(envelope.host_sender(credentials.host), credentials.keys[0])
        self._conductors = {key_id: envelope.public_key(text) for key_id, text in credentials.conductor_keys.items()}
        self.summary: dict[str, Any] = {
            "conductors": sorted(self._conductors),
            "own": {key.key_id: key.public_text for key in credentials.keys},
        }

    @property
    def host(self) -> str:
        return self.credentials.host

    @property
    def reported(self) -> Mapping[str, Any]:
        """Return the keys as the host's reports list them."""
        if not self.is_answer_requested:
            return self.summary
        return {**self.summary, "conductors": [*self.summary["conductors"], ANSWER_REQUESTED]}

    def conductor_key(self, key_id: str) -> Ed25519PublicKey | None:
        """Return a public key of the conductors that the host accepts."""
        return self._conductors.get(key_id)

    def renew(self, conductor_keys: Mapping[str, str], accepted: Iterable[str], replace: Iterable[str]) -> bool:
        """Apply the conductors' announcement of keys. Return whether anything changed. Raises OSError, ValueError.

        Where the signing key is in `replace`, a second key is created. Once the conductors have accepted it, it signs
        and the first key is removed.
        """
        with self._lock:
            now = self.credentials
            keys = now.keys
            if len(keys) > 1 and keys[-1].key_id in set(accepted):
                keys = keys[-1:]
            elif len(keys) == 1 and keys[0].key_id in set(replace):
                keys = (*keys, SigningKey.new())
            pins = {envelope.key_id_of(text): text for text in conductor_keys.values()} or dict(now.conductor_keys)
            if keys == now.keys and pins == dict(now.conductor_keys):
                return False
            changed = Credentials(now.host, now.cell, keys, pins)
            write(self._path, changed)
            self._take(changed)
            return True
