"""The certificate of a console door: made at each start, known by its fingerprint, never kept on a disk."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "novella-consoles")])
LIFE = timedelta(days=3650)
SKEW = timedelta(days=1)  # clocks of two machines differ


def make() -> tuple[ssl.SSLContext, str]:
    """A context for a server, and the SHA-256 of its certificate in hex."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFE)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory(prefix="novella-door-") as folder:  # ssl reads files only
        path = Path(folder) / "door.pem"
        path.touch(0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(path)
    return context, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
