"""Subscriptions by e-mail, to a real mail server: to the account's address, once per message, without injection."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from conductor.api_db.models import Subscription
from conductor.core.errors import Invalid
from conductor.identity.models import User
from conductor.journal.models import NotificationPlace
from conductor.services.notifications import deliveries, subscriptions
from conductor.services.notifications.subscriptions import SubscriptionRequest
from tests.compute_rows import make_cloud, make_instance
from tests.fixtures.subscribers import log_of, loop, retry_now, work_of
from tests.integration.interventions import ALIAS
from tests.integration.page_clients import signed_in
from tests.services import mail
from tests.services.mail import PASSWORD, USER, Post

pytestmark = pytest.mark.usefixtures("databases")
__all__ = ["loop"]
ANA = "ana@shop.example"


@pytest.fixture
def post(people: Any, settings: Any) -> Iterator[Post]:
    """A mail server that the cloud uses; ana's account has an address."""
    User.objects.filter(pk=people.ana.user.pk).update(email=ANA)
    settings.NOVELLA_MAIL_FROM = "cloud@shop.example"
    with mail.running() as post:
        settings.NOVELLA_SMTP_URL = f"smtp://127.0.0.1:{post.port}"
        yield post


@pytest.fixture
def ana(post: Post, people: Any) -> Any:
    return people.ana


def subscribe(person: Any, **requested: Any) -> str:
    requested = {"name": "letters", "channel": "email", "events": ["*.end"], **requested}
    return subscriptions.subscribe(person.context(), SubscriptionRequest(**requested)).view.uuid


def test_a_letter_says_what_happened_and_comes_again_under_its_own_id(loop: Any, post: Post, people: Any) -> None:
    uid = subscribe(people.ana)
    make_cloud(people)
    server = make_instance(people.ana.context(), ALIAS, "web-1", host="sim-1", node="sim-1")
    run = work_of(people.ana, server.uuid)
    loop.go_round()
    [(recipients, letter)] = post.got
    assert (recipients, letter["To"], letter["From"]) == ([ANA], ANA, "cloud@shop.example")
    assert (letter["Subject"], letter["Auto-Submitted"]) == ("Make of web-1 ended", "auto-generated")
    text = letter.get_payload()
    for reported in (
        "Event: instance.make.end",
        f"Server: {server.uuid}",
        f"Workflow: {run.uuid}",
        "subscription letters",
    ):
        assert reported in text
    assert "sim-1" not in letter.as_string()
    [sent] = deliveries.list_of(people.ana.context(), uid).items
    deliveries.send_again(people.ana.context(), uid, sent.id)
    deliveries.test(people.ana.context(), uid)
    loop.go_round()
    loop.go_round()
    again, test = (letter for _, letter in sorted(post.got[1:], key=lambda got: got[1]["Subject"], reverse=True))
    assert (again["Message-ID"], again["Subject"]) == (letter["Message-ID"], letter["Subject"])
    assert test["Subject"] == "A test: what you subscribed to arrives here"
    assert {one.detail for one in deliveries.list_of(people.ana.context(), uid).items} == {"accepted"}


def test_a_name_adds_no_line_and_no_recipient(loop: Any, post: Post, people: Any) -> None:
    subscribe(people.ana)
    make_cloud(people)
    server = make_instance(people.ana.context(), ALIAS, "web\r\nBcc: bo@shop.example\r\n\r\nHello")
    work_of(people.ana, server.uuid)
    loop.go_round()
    [(recipients, letter)] = post.got
    assert (recipients, letter["Bcc"]) == ([ANA], None)
    assert letter["Subject"] == "Make of web Bcc: bo@shop.example Hello ended"


def test_mails_that_the_server_refuses_are_sent_later(loop: Any, post: Post, people: Any) -> None:
    uid = subscribe(people.ana)
    post.answers = [f"451 4.3.0 {ANA} rejects mail"]
    work_of(people.ana)
    loop.go_round()
    assert NotificationPlace.objects.using(ALIAS).get(sink=f"subscription {uid}").last_error == "answered 451"
    retry_now()
    loop.go_round()
    assert log_of(uid) == [("instance.make.end", "failed"), ("instance.make.end", "delivered")]
    assert len(post.got) == 1


def test_no_mail_is_sent_without_an_address_or_a_server(loop: Any, post: Post, people: Any, settings: Any) -> None:
    with pytest.raises(Invalid, match="Your account has no email address") as refused:
        subscribe(people.bo)
    assert refused.value.details["field"] == "channel"
    uid = subscribe(people.ana)
    with pytest.raises(Invalid, match="Only webhooks and chats have a url"):
        subscriptions.change(people.ana.context(), uid, SubscriptionRequest(url="https://hooks.example.org/"), None)
    User.objects.filter(pk=people.ana.user.pk).update(email="")
    work_of(people.ana)
    loop.go_round()
    row = Subscription.objects.get()
    assert (post.got, row.is_enabled) == ([], False)
    assert row.off_reason == "Your account has no email address. An operator can add one."
    settings.NOVELLA_SMTP_URL = ""
    with pytest.raises(Invalid, match="sends no email"):
        subscribe(people.ana, name="more")
    assert Subscription.objects.count() == 1


def test_the_page_shows_it_to_users_that_it_can_notify(loop: Any, post: Post, people: Any) -> None:
    bo = signed_in("bo").get("/notifications/subscriptions").content.decode()
    assert "Your account has no email address" in bo
    ana = signed_in("ana")
    assert "no email address" not in ana.get("/notifications/subscriptions").content.decode()
    form = {"name": "letters", "channel": "email", "url": "", "kind": "errors", "events": "", "servers": ""}
    page = ana.post("/notifications/subscriptions", form, follow=True).content.decode()
    assert "letters now notifies you by email." in page
    assert "sends email to your address" in page


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate for the loopback, and a server context with it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, whole = folder / "public.pem", folder / "whole.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    whole.write_bytes(key.private_bytes(*private) + public.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(whole)
    return public, context


@pytest.mark.filterwarnings("ignore:Requiring AUTH:UserWarning")  # the line of smtps is TLS from its first byte
@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
def test_the_password_goes_to_the_server_that_is_meant_alone(
    scheme: str, loop: Any, ana: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, context = certificate(tmp_path)
    uid = subscribe(ana)
    with mail.running(scheme, context) as guarded:
        settings.NOVELLA_SMTP_URL = f"{scheme}://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{guarded.port}"
        work_of(ana)
        loop.go_round()
        place = NotificationPlace.objects.using(ALIAS).get(sink=f"subscription {uid}")
        assert (place.last_error, guarded.logins) == ("SSLCertVerificationError", [])
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        retry_now()
        loop.go_round()
        assert guarded.logins == [PASSWORD.encode()]
    [(recipients, _)] = guarded.got
    assert recipients == [ANA]
