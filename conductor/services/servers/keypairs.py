"""Key pairs: public keys with which owners sign in to their guests."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from conductor.api_db.models import KeyPair
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.messages import message
from conductor.core.page import Page
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.identity import delegation, tokens
from conductor.services.quotas import quotas
from conductor.services.servers.types import KeyPairView

KEY_TYPES = frozenset(
    {
        "ssh-rsa",
        "ssh-dss",
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
NAME = re.compile(r"\A(?! )[A-Za-z0-9 ._@-]+(?<! )\Z")
LONGEST_NAME, LONGEST_KEY = 255, 16384
LENGTH_BYTES = 4
SSH, X509 = "ssh", "x509"
CERTIFICATE_DAYS = 3650


@dataclass(frozen=True)
class KeyPairCreate:
    """A key pair to store, of kind `ssh` or `x509`; the private half is only passed through."""

    name: str
    kind: str
    public_key: str
    private_key: str = field(default="", repr=False)


def import_key(context: RequestContext, user_id: str, name: str, public_key: str, kind: str = SSH) -> KeyPairView:
    """Store a public key.

    Raises Invalid for anything but an OpenSSH key or certificate, Conflict when the name is taken.
    """
    _require(name, kind)
    if len(public_key) > LONGEST_KEY:
        raise Invalid(message("invalid.too_long", most=LONGEST_KEY), field="keypair.public_key")
    return _store(context, user_id, KeyPairCreate(name, kind, public_key))  # stored as sent: clients compare the two


def generate(context: RequestContext, user_id: str, name: str, kind: str = SSH) -> KeyPairView:
    """Generate a pair; the private half is only in the result."""
    _require(name, kind)
    public, private = _certificate(name) if kind == X509 else _ssh_pair()
    return _store(context, user_id, KeyPairCreate(name, kind, public, private))


def _ssh_pair() -> tuple[str, str]:
    made = Ed25519PrivateKey.generate()
    public = made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private = made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return f"{public} Generated-by-Novella", private


def _certificate(name: str) -> tuple[str, str]:
    """Generate a self-signed certificate, with the name that guests which accept certificates expect."""
    from cryptography import x509  # few ask for one
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(made.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(made, hashes.SHA256())
    )
    private = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return built.public_bytes(Encoding.PEM).decode(), private


def list_page(context: RequestContext, user_id: str, *, limit: int = 1000, marker: str = "") -> Page[KeyPairView]:
    """Return a user's pairs by name. Raises Invalid for an unknown marker."""
    rows = KeyPair.objects.filter(user_id=user_id).order_by("name")
    if marker:
        if not rows.filter(name=marker).exists():
            raise Invalid(f"marker [{marker}] not found", field="marker")
        rows = rows.filter(name__gt=marker)
    found = list(rows[: limit + 1])
    return Page([_view(row) for row in found[:limit]], has_more=len(found) > limit)


def get(context: RequestContext, user_id: str, name: str) -> KeyPairView:
    """Return a pair. Raises NotFound."""
    row = KeyPair.objects.filter(user_id=user_id, name=name).first()
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
    return _view(row)


def key_for_guest(user_id: str, name: str, *, field: str) -> str:
    """Return the public key for a guest.

    Raises Invalid for an unknown pair, and for one whose trust or application credential has ended.
    """
    row = KeyPair.objects.filter(user_id=user_id, name=name).first()
    if row is None or not tokens.is_delegation_alive(row.delegated_by):
        raise Invalid("Invalid key_name provided.", field=field)
    return _view(row).ssh_key


def delete(context: RequestContext, user_id: str, name: str) -> None:
    """Delete a pair; guests keep their copy of the key.

    Raises NotFound, and Forbidden for a delegated token that has not created it: it could put another key in its place.
    """
    with write_tx():
        row = KeyPair.objects.filter(user_id=user_id, name=name).first()
        if row is None:
            raise NotFound(f"Keypair {name} not found for user {user_id}")
        delegation.require_maker(context, row.delegated_by)
        row.delete()


def fingerprint(public_key: str) -> str:
    """Return the MD5 of the key as colon-separated hex pairs, as the Compute API shows it. Raises Invalid."""
    digest = hashlib.md5(_blob(public_key), usedforsecurity=False).hexdigest()
    return ":".join(digest[start : start + 2] for start in range(0, len(digest), 2))


def _store(context: RequestContext, user_id: str, wanted: KeyPairCreate) -> KeyPairView:
    is_certificate = wanted.kind == X509
    seen = _certificate_print(wanted.public_key) if is_certificate else fingerprint(wanted.public_key)
    with write_tx():
        one_at_a_time(API_ALIAS, f"user:{user_id}")
        mine = KeyPair.objects.filter(user_id=user_id)
        if mine.filter(name=wanted.name).exists():
            raise Conflict(f"Key pair '{wanted.name}' already exists.")
        allowed = quotas.limits(context.project_id) | quotas.user_limits(context.project_id, user_id)
        quotas.check_limit(allowed, "key_pairs", in_use=mine.count())
        made = KeyPair.objects.create(
            user_id=user_id,
            name=wanted.name,
            key_type=wanted.kind,
            public_key=wanted.public_key,
            fingerprint=seen,
            delegated_by=context.delegated_by,
            created_at=database_now(),
        )
        row = KeyPair.objects.get(pk=made.pk)
    return _view(row, private_key=wanted.private_key)


def _certificate_print(text: str) -> str:
    """Return the SHA-1 of the certificate as colon-separated hex pairs, as the Compute API shows it. Raises Invalid."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    try:
        found = x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise _not_a_key() from None
    return found.fingerprint(hashes.SHA1()).hex(":")


def _require(name: str, kind: str) -> None:
    """Raises Invalid for a name or a kind that no key pair may have."""
    if not NAME.match(name):
        raise Invalid(message("invalid.name", characters="letters, digits, spaces and ._@-"), field="keypair.name")
    if len(name) > LONGEST_NAME:
        raise Invalid(message("invalid.too_long", most=LONGEST_NAME), field="keypair.name")
    if kind not in (SSH, X509):
        raise Invalid(message("invalid.one_of", values=f"{SSH}, {X509}"), field="keypair.type")


def _blob(public_key: str) -> bytes:
    """Return the key's bytes: `<type> <base64 of (length, type, rest)> [comment]`, on one line."""
    words = public_key.split()
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in public_key.strip():
        raise _not_a_key()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise _not_a_key() from None
    length = int.from_bytes(blob[:LENGTH_BYTES], "big")
    kind, rest = blob[LENGTH_BYTES : LENGTH_BYTES + length], blob[LENGTH_BYTES + length :]
    if kind != words[0].encode() or len(rest) <= LENGTH_BYTES:
        raise _not_a_key()
    return blob


def _not_a_key() -> Invalid:
    return Invalid("Keypair data is invalid: failed to generate fingerprint", field="keypair.public_key")


def _view(row: KeyPair, *, private_key: str = "") -> KeyPairView:
    return KeyPairView(
        number=row.pk,
        user_id=row.user_id,
        name=row.name,
        key_type=row.key_type,
        public_key=row.public_key,
        fingerprint=row.fingerprint,
        created_at=row.created_at,
        private_key=private_key,
    )
