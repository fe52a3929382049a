"""Certificates of a test's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Credentials:
    """The files of a private key and of its certificate, with that of the authority that it trusts."""

    private_key: Path
    certificate: Path
    ca_certificate: Path

    @property
    def options(self) -> list[str]:
        """The options by which programs of OVN take them."""
        return [
            f"--private-key={self.private_key}",
            f"--certificate={self.certificate}",
            f"--ca-cert={self.ca_certificate}",
        ]


@dataclass
class Authority:
    """An authority that signs certificates, with its files in `folder`."""

    folder: Path
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.certificate.write_bytes(self._signed(self.folder.name, self._key).public_bytes(PEM))

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, trusted: Path | None = None) -> Credentials:
        """Return new credentials of `name`, which trust this authority or those in the file `trusted`."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = Credentials(self.folder / f"{name}.key", self.folder / f"{name}.pem", trusted or self.certificate)
        made.private_key.write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        made.certificate.write_bytes(self._signed(name, key).public_bytes(PEM))
        return made

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        began = datetime.now(UTC) - timedelta(hours=1)
        return (
            x509.CertificateBuilder(
                _name(self.folder.name), _name(name), key.public_key(), x509.random_serial_number(), began,
                began + timedelta(days=2),
            )
            .add_extension(x509.BasicConstraints(ca=key is self._key, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )  # fmt: skip


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
