"""The signed envelope of every message between processes: sender, recipient, time and content.

The body is sent as the signed text, so that both ends have the same bytes. `trust.py` says which sender may send which
kind of message, and `keys.py` which keys are valid.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from conductor.core import json_text
from conductor.core.errors import Forbidden

CONDUCTOR = "conductor"
SCHEDULER = "scheduler"
HOST_PREFIX = "host:"
LONGEST_HEADER = 300  # of one field: names of hosts have at most 255 characters
_SURROGATE = re.compile(r"\\u[dD][89abcdefABCDEF]")
_CONTEXT = "novella envelope 1"  # separates these signatures from all other uses of the key


class Refused(Forbidden):
    """A message was refused. `cause` is one of trust.CAUSES; sender and kind are what the message claims."""

    def __init__(self, cause: str, message: str, *, sender: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.cause, self.sender, self.kind = cause, sender, kind


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope on the wire. `issued_at` is in seconds since 1970, by the sender's clock."""

    kind: str
    sender: str
    recipient: str
    issued_at: float
    nonce: str
    key_id: str
    digest: str
    signature: str
    body: str

    def header(self) -> bytes:
        """Return the bytes that are signed: all fields except the signature, with a digest in place of the body."""
        named = (self.kind, self.sender, self.recipient, repr(self.issued_at), self.nonce, self.key_id, self.digest)
        return json.dumps([_CONTEXT, *named]).encode()

    @property
    def host(self) -> str:
        """The sending host; empty for a conductor."""
        return self.sender.removeprefix(HOST_PREFIX) if self.sender.startswith(HOST_PREFIX) else ""

    def refusal(self, cause: str, message: str) -> Refused:
        return Refused(cause, message, sender=self.sender, kind=self.kind)


_NAMES = tuple(field.name for field in fields(Envelope))


@dataclass(frozen=True)
class SigningKey:
    """A private key with its id, which is derived from the public key."""

    private: Ed25519PrivateKey

    @property
    def public_text(self) -> str:
        return to_text(self.private.public_key().public_bytes_raw())

    @property
    def private_text(self) -> str:
        return to_text(self.private.private_bytes_raw())

    @property
    def key_id(self) -> str:
        return key_id_of(self.public_text)

    @classmethod
    def new(cls) -> SigningKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_text(cls, text: str) -> SigningKey:
        """Parse a private key. Raises ValueError."""
        return cls(Ed25519PrivateKey.from_private_bytes(base64.b64decode(text, validate=True)))


@dataclass(frozen=True)
class Signer:
    """A sender with its key; the key's id is cached, as it costs a derivation."""

    sender: str
    key: SigningKey
    key_id: str

    def seal(self, kind: str, recipient: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a signed envelope around `body`, as JSON values."""
        text = json.dumps(body, separators=(",", ":"))
        unsigned = Envelope(
            kind=kind,
            sender=self.sender,
            recipient=recipient,
            issued_at=time.time(),
            nonce=secrets.token_urlsafe(12),
            key_id=self.key_id,
            digest=digest_of(text),
            signature="",
            body=text,
        )
        signature = to_text(self.key.private.sign(unsigned.header()))
        return {**{name: getattr(unsigned, name) for name in _NAMES}, "signature": signature}


def signer(sender: str, key: SigningKey) -> Signer:
    return Signer(sender, key, key.key_id)


def host_sender(host: str) -> str:
    """Return the name of a host as a sender or recipient."""
    return f"{HOST_PREFIX}{host}"


def read(wire: Any) -> Envelope:
    """Parse the envelope of a message, without verification. Raises Refused where it is malformed."""
    if not isinstance(wire, dict) or not all(name in wire for name in _NAMES):
        raise Refused("unsigned", "The message has no signed envelope.")
    found = Envelope(**{name: wire[name] for name in _NAMES})
    texts = (found.kind, found.sender, found.recipient, found.nonce, found.key_id, found.digest, found.signature)
    # Printable: refused messages are counted under these texts, and databases store neither NUL nor lone surrogates.
    if not all(isinstance(text, str) and len(text) <= LONGEST_HEADER and text.isprintable() for text in texts):
        raise Refused("unsigned", "The message's envelope is malformed.")
    if not isinstance(found.issued_at, float) or not isinstance(found.body, str) or not is_unicode(found.body):
        raise Refused("unsigned", "The message's envelope is malformed.")
    return found


def verify(envelope: Envelope, public_key: Ed25519PublicKey) -> None:
    """Raise Refused where the signature is not by this key, or where the body is not the signed one."""
    try:
        public_key.verify(base64.b64decode(envelope.signature, validate=True), envelope.header())
    except (InvalidSignature, ValueError):
        raise envelope.refusal("signature", "The signature is not that of the sender's key.") from None
    if digest_of(envelope.body) != envelope.digest:
        raise envelope.refusal("signature", "The body is not the one that was signed.")


def content(sealed: Envelope) -> Any:
    """Parse the body. Raises ValueError if it is not JSON, nests too deep, or has a text that is not Unicode."""
    found = json_text.loads(sealed.body)
    if _SURROGATE.search(sealed.body) and not is_unicode(json.dumps(found, ensure_ascii=False)):
        raise ValueError("a text has a surrogate without its pair")
    return found


def is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate, which JSON can express and databases cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def public_key(text: str) -> Ed25519PublicKey:
    """Parse a public key. Raises ValueError."""
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))


def key_id_of(public_text: str) -> str:
    return hashlib.sha256(base64.b64decode(public_text)).hexdigest()[:16]


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def to_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
