"""A cloud with a certificate and a public URL: real TLS, secure cookies, links, and forged headers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.acceptance.cloud import Cloud
from tests.fixtures.starts import refused

PUBLIC = "https://cloud.example.org"
FORGED = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for the loopback, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cloud")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.touch(0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


def tls_variables(folder: Path) -> dict[str, str]:
    public, private = certificate(folder)
    return {"NOVELLA_TLS_CERT": str(public), "NOVELLA_TLS_KEY": str(private)}


def test_tls_cookies_links_and_forged_headers(new_cloud: Callable[..., Cloud], tmp_path: Path) -> None:
    variables = tls_variables(tmp_path)
    cloud = new_cloud(NOVELLA_PUBLIC_URL=PUBLIC, **variables).start()
    url = f"https://127.0.0.1:{cloud.port}"
    with requests.Session() as client:
        client.trust_env = False  # a bundle of the shell's would take the place of the certificate
        client.verify = variables["NOVELLA_TLS_CERT"]
        client.headers.update({"Host": "cloud.example.org"} | FORGED)
        with pytest.raises(requests.ConnectionError):
            requests.get(f"http://127.0.0.1:{cloud.port}/healthz", timeout=120)

        page = client.get(f"{url}/sign-in")
        assert page.status_code == 200
        assert "max-age=31536000" in page.headers["Strict-Transport-Security"]
        assert "Secure" in page.headers["Set-Cookie"]

        assert f"OS_AUTH_URL={PUBLIC}/identity/v3" in (cloud.data_dir / "openrc.sh").read_text()
        password = json.loads((cloud.data_dir / "passwords.json").read_text())["demo"]
        person = {"user": {"name": "demo", "domain": {"name": "Default"}, "password": password}}
        scope = {"project": {"name": "demo", "domain": {"name": "Default"}}}
        wanted = {"auth": {"identity": {"methods": ["password"], "password": person}, "scope": scope}}
        token = client.post(f"{url}/identity/v3/auth/tokens", json=wanted)
        assert token.status_code == 201
        endpoints = [one["url"] for entry in token.json()["token"]["catalog"] for one in entry["endpoints"]]
        assert endpoints
        assert all(one.startswith(f"{PUBLIC}/") for one in endpoints)

        client.headers["X-Auth-Token"] = token.headers["X-Subject-Token"]
        made = client.post(f"{url}/compute/v2.1/os-keypairs", json={"keypair": {"name": "mine"}})
        assert made.status_code in (200, 201)
        for host in ("cloud.example.org", f"127.0.0.1:{cloud.port}"):
            versions = client.get(f"{url}/compute/", headers={"Host": host})
            assert versions.json()["versions"][0]["links"][0]["href"].startswith(f"{PUBLIC}/compute/")

        other = client.get(f"{url}/sign-in", headers={"Host": "evil.example"})
        assert other.status_code == 400
        assert "NOVELLA_PUBLIC_URL" in other.text
    addresses = {row[0] for row in cloud.rows("api", "select remote_address from journal_auditrecord")}
    assert "127.0.0.1" in addresses
    assert "6.6.6.6" not in addresses


def test_a_certificate_that_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    variables = tls_variables(tmp_path)
    public, private = Path(variables["NOVELLA_TLS_CERT"]), Path(variables["NOVELLA_TLS_KEY"])
    cloud = Cloud(tmp_path / "var")
    private.chmod(0o644)
    assert refused(cloud, **variables) == (
        1,
        [f"CommandError: NOVELLA_TLS_KEY: every account can use {private}. Keep it to yourself: chmod o= {private}"],
    )
    private.chmod(0o600)
    private.write_bytes(public.read_bytes())
    code, lines = refused(cloud, **variables)
    assert (code, len(lines)) == (1, 1)
    assert "NOVELLA_TLS_CERT" in lines[0]
