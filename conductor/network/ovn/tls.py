"""TLS of connections to OVN's databases."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from conductor.network.ovn.errors import DatabaseUnavailable


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The conductor's private key and certificate, and the certificates of the authorities that it trusts."""

    private_key: Path
    certificate: Path
    ca_certificate: Path

    def context(self) -> ssl.SSLContext:
        """Return the context of a connection. Raises DatabaseUnavailable for a file that cannot be used.

        As with OVN's own programs, the authority vouches for the server, whatever its certificate is named.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(self.ca_certificate)
        except OSError as error:
            raise DatabaseUnavailable(f"NOVELLA_OVN_CA_CERTIFICATE: {self.ca_certificate}: {error}") from error
        try:
            context.load_cert_chain(self.certificate, self.private_key)
        except OSError as error:
            files = f"{self.certificate} with the key {self.private_key}"
            raise DatabaseUnavailable(f"NOVELLA_OVN_CERTIFICATE: {files}: {error}") from error
        return context
