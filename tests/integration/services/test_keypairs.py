"""Key pairs: fingerprints as ssh prints them, and matching pairs."""

from __future__ import annotations

import threading

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import MD5
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
    ssh_key_fingerprint,
)
from django.db import connections

from conductor.api_db.models import KeyPair, Quota
from conductor.core.errors import Conflict, Invalid, QuotaExceeded
from conductor.services.servers import keypairs
from tests.people import People
from tests.waiting import WAIT_SECONDS

MADE = (
    ed25519.Ed25519PrivateKey.generate(),
    ec.generate_private_key(ec.SECP256R1()),
    rsa.generate_private_key(public_exponent=65537, key_size=2048),
)


@pytest.mark.parametrize("private", MADE, ids=lambda key: type(key).__name__)
def test_fingerprints(private: rsa.RSAPrivateKey) -> None:
    public = private.public_key()
    text = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    wanted = ssh_key_fingerprint(public, MD5()).hex(":")
    assert keypairs.fingerprint(text) == keypairs.fingerprint(f"{text} ana@laptop\n") == wanted


def test_a_generated_key_pair_matches(people: People) -> None:
    ana = people.ana.context()
    made = keypairs.generate(ana, ana.user_id, "made")
    private = load_ssh_private_key(made.private_key.encode(), None)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    public = load_ssh_public_key(made.public_key.encode())
    assert private.public_key().public_bytes_raw() == public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    assert keypairs.get(ana, ana.user_id, "made").private_key == ""
    assert "PRIVATE" not in repr(made)


def test_one_name_once_and_not_more_than_the_limit(people: People) -> None:
    ana = people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="key_pairs", limit=3)
    refused: list[Exception] = []

    def make(name: str) -> None:
        try:
            keypairs.generate(ana, ana.user_id, name)
        except (Conflict, QuotaExceeded) as error:
            refused.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make, args=(f"key-{number % 5}",)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    assert KeyPair.objects.count() == 3
    assert len(refused) == 7


@pytest.mark.parametrize(
    "text", ["", "ssh-rsa", "ssh-rsa !!!!", "ssh-rsa AAAA", "hello d29ybGQ=", "ssh-ed25519\nAAAA\nx"]
)
def test_invalid_keys_are_refused(text: str, people: People) -> None:
    ana = people.ana.context()
    with pytest.raises(Invalid):
        keypairs.import_key(ana, ana.user_id, "bad", text)
    assert KeyPair.objects.count() == 0
