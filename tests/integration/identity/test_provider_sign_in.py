"""Sign-in with a running OpenID provider: accepted users with their roles, and refusals."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from conductor.identity.models import ProviderAccount, RoleAssignment, User
from conductor.journal.models import AuditRecord
from tests import factories
from tests.fixtures.second_factor import code_of
from tests.integration.page_clients import signed_in, text
from tests.people import PASSWORD
from tests.services.openid_provider import DISCOVERY, TOKEN, Provider, question_of, running

BACK = "http://testserver/sign-in/provider/answer"
RULES = (("crew", "shop", "member"), ("chiefs", "admin", "admin"), ("*", "lab", "reader"))


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    with running(BACK) as provider:
        yield provider


@pytest.fixture
def provider(shared_provider: Provider, people: Any, settings: LazySettings) -> Provider:
    """A running provider that this cloud is configured for; eve is in the group crew."""
    factories.cells()
    shared_provider.quiet()
    settings.NOVELLA_OIDC_ISSUER = shared_provider.issuer
    settings.NOVELLA_OIDC_CLIENT_ID = shared_provider.client_id
    settings.NOVELLA_OIDC_CLIENT_SECRET = shared_provider.client_secret
    settings.NOVELLA_OIDC_NAME = "Harbour"
    settings.NOVELLA_OIDC_ROLES = RULES
    shared_provider.knows("eve-1", preferred_username="eve", email="eve@shop.example", groups=["crew", "cooks"])
    return shared_provider


def way_there(client: Client, **query: str) -> str:
    answer = client.get("/sign-in/provider", query)
    assert answer.status_code == 302, text(answer)
    return str(answer["Location"])


def enter(client: Client, provider: Provider, subject: str = "eve-1", **query: str) -> Any:
    return client.get(provider.signs_in(way_there(client, **query), subject))


def rights() -> set[tuple[str, str]]:
    rows = RoleAssignment.objects.filter(user__username="eve").values_list("project__name", "role__name")
    return set(rows)


def test_without_a_provider_no_page_mentions_one(people: Any) -> None:
    assert "Sign in with" not in text(Client().get("/sign-in"))
    assert Client().get("/sign-in/provider").status_code == 404
    assert Client().get("/sign-in/provider/answer?code=x&state=y").status_code == 404


def test_the_first_sign_in_creates_an_account_and_later_ones_use_it(provider: Provider) -> None:
    client = Client()
    assert 'href="/sign-in/provider?next=%2Fvolumes"' in client.get("/sign-in?next=/volumes").content.decode()
    address = way_there(client, next="/volumes")
    requested = question_of(address)
    assert (requested["response_type"], requested["redirect_uri"]) == ("code", BACK)
    assert {"openid", "profile", "email"} == set(requested["scope"].split())
    answer = client.get(provider.signs_in(address, "eve-1"))
    assert (answer.status_code, answer["Location"]) == (302, "/project")  # two projects: she chooses
    observed = provider.token_requests[-1]
    challenge = base64.urlsafe_b64encode(hashlib.sha256(observed["code_verifier"].encode()).digest()).rstrip(b"=")
    assert (requested["code_challenge_method"], requested["code_challenge"].encode()) == ("S256", challenge)
    eve = User.objects.get(username="eve")
    assert (eve.email, eve.has_usable_password(), eve.domain_id) == ("eve@shop.example", False, "default")
    assert rights() == {("shop", "member"), ("lab", "reader")}
    record = AuditRecord.objects.get(action="user.create_from_provider")
    assert (record.user_name, sorted(record.details["given"])) == ("eve", ["lab:reader", "shop:member"])
    shop = factories.project("shop")
    assert enter(Client(), provider, next="/volumes", project=shop.id)["Location"] == "/volumes"
    assert ProviderAccount.objects.get().user == eve
    assert AuditRecord.objects.filter(action__contains="provider").count() == 1


def test_roles_follow_the_providers_claims_and_manual_roles_stay(provider: Provider) -> None:
    enter(Client(), provider)
    factories.user("eve", lab="manager")
    provider.knows("eve-1", preferred_username="evelyn", groups="chiefs")  # one word, and another name
    enter(Client(), provider)
    assert rights() == {("admin", "admin"), ("lab", "reader"), ("lab", "manager")}
    record = AuditRecord.objects.get(action="user.roles_from_provider")
    assert (record.details["given"], record.details["taken"]) == (["admin:admin"], ["shop:member"])
    provider.knows("eve-1", preferred_username="evelyn", groups={"not": "a list"})
    enter(Client(), provider)
    assert rights() == {("lab", "reader"), ("lab", "manager")}


def test_a_role_assigned_by_hand_is_never_removed(provider: Provider) -> None:
    provider.knows("eve-1", preferred_username="eve", groups=[])
    enter(Client(), provider)
    factories.user("eve", shop="member")
    for groups in (["crew"], []):
        provider.knows("eve-1", preferred_username="eve", groups=groups)
        enter(Client(), provider)
        assert ("shop", "member") in rights()


def test_missing_roles_are_reported_to_the_operator(
    provider: Provider, settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.NOVELLA_OIDC_ROLES = (("crew", "shop", "captain"), ("crew", "moon", "member"), ("crew", "shop", "reader"))
    enter(Client(), provider)
    assert rights() == {("shop", "reader")}
    assert "no project moon or no role member" in caplog.text
    assert "no project shop or no role captain" in caplog.text


def test_claims_that_the_token_lacks_are_read_from_the_userinfo_endpoint(provider: Provider) -> None:
    provider.forge({"groups": None})
    assert enter(Client(), provider).status_code == 302
    assert ("shop", "member") in rights()


NOT_FOR_THIS: tuple[dict[str, Any], ...] = (
    {"nonce": "another"},
    {"nonce": None},
    {"iss": "http://localhost:1"},
    {"aud": "another-cloud"},
    {"aud": ["another-cloud"]},
    {"exp": 1_000_000_000},
    {"sub": None},
    {"sub": "somebody-else", "groups": None},  # not the user of the userinfo endpoint
    {"azp": "another-cloud"},
)


def test_a_token_that_is_not_for_this_sign_in_is_refused(provider: Provider) -> None:
    for changes in NOT_FOR_THIS:
        provider.forge(changes)
        refused(enter(Client(), provider), 502, "be verified")


def test_a_token_with_another_signature_is_refused(provider: Provider) -> None:
    provider.forge({}, algorithm="RS512")  # not an announced algorithm
    refused(enter(Client(), provider), 502, "be verified")
    provider.quiet()
    provider.forge({}, is_known_key=False)
    refused(enter(Client(), provider), 502, "be verified")


def test_an_answer_without_a_token_proves_nothing(provider: Provider) -> None:
    provider.bends[TOKEN] = lambda answer: {name: answer[name] for name in answer if name != "id_token"}
    refused(enter(Client(), provider), 502, "be verified")


def test_an_answer_counts_once_and_only_in_the_browser_that_was_sent(provider: Provider) -> None:
    client = Client()
    back = provider.signs_in(way_there(client), "eve-1")
    refused(Client().get(back), 400, "started in another browser")
    refused(client.get(back.replace("state=", "state=x")), 400, "started in another browser")
    assert client.get(back).status_code == 302
    again = client.get(back)
    assert again.status_code == 400
    assert "started in another browser" in text(again)


def test_declining_at_the_provider_does_not_sign_in(provider: Provider) -> None:
    client = Client()
    answer = client.get(provider.denies(way_there(client, next="/volumes")))
    refused(answer, 403, "Sign-in with Harbour failed")
    assert 'name="next" value="/volumes"' in answer.content.decode()
    client = Client()
    back = provider.signs_in(way_there(client), "eve-1")
    refused(client.get(f"{back}&iss=http://localhost:1"), 502, "be verified")


def test_a_wrong_client_secret_is_refused(provider: Provider, settings: LazySettings) -> None:
    settings.NOVELLA_OIDC_CLIENT_SECRET = "wrong"
    refused(enter(Client(), provider), 403, "Sign-in with Harbour failed")


def test_a_provider_that_is_gone_or_replaced_is_reported(provider: Provider, settings: LazySettings) -> None:
    provider.bends[DISCOVERY] = lambda observed: {**observed, "issuer": "http://localhost:1"}
    refused(Client().get("/sign-in/provider"), 503, "Harbour doesn't respond")
    provider.bends[DISCOVERY] = lambda observed: {name: observed[name] for name in observed if name != "jwks_uri"}
    refused(Client().get("/sign-in/provider"), 503, "Harbour doesn't respond")
    settings.NOVELLA_OIDC_ISSUER = "http://localhost:9"  # nothing listens there
    refused(Client().get("/sign-in/provider"), 503, "Harbour doesn't respond")
    assert Client().post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 302


def test_an_equal_name_does_not_link_an_account(provider: Provider, people: Any) -> None:
    provider.knows("not-ana", preferred_username="ana", groups=["chiefs"])
    refused(enter(Client(), provider, "not-ana"), 409, "Another account already has your name")
    assert RoleAssignment.objects.filter(user=people.ana.user).count() == 1


def test_a_disabled_user_cannot_sign_in_by_the_provider_and_gets_no_roles(provider: Provider) -> None:
    enter(Client(), provider)
    User.objects.filter(username="eve").update(is_active=False)
    provider.knows("eve-1", preferred_username="eve", groups=["chiefs"])
    answer = enter(Client(), provider)
    assert answer.status_code == 403
    assert "Your account is disabled" in text(answer)
    assert ("admin", "admin") not in rights()


def test_without_a_name_from_the_provider_the_subject_is_the_name(provider: Provider) -> None:
    provider.knows("nameless", groups=["crew"], preferred_username="x" * 300, email="no address")
    enter(Client(), provider, "nameless")
    assert User.objects.get(username="no address").email == ""


def test_a_provider_sign_in_also_asks_for_the_second_factor(provider: Provider) -> None:
    client = Client()
    enter(client, provider, project=factories.project("shop").id)
    page = client.get("/profile/second-factor").content.decode()
    key = page.partition('id="the-key">')[2].partition("<")[0]
    client.post("/profile/second-factor", {"do": "confirm", "code": code_of(key)})
    other = Client()
    assert enter(other, provider, next="/volumes")["Location"] == "/sign-in/code"
    assert other.get("/volumes")["Location"].startswith("/sign-in")


def test_signing_out_offers_the_sign_out_of_the_provider(provider: Provider) -> None:
    client = Client()
    enter(client, provider, project=factories.project("shop").id)
    answer = client.post("/sign-out")
    assert answer.status_code == 200
    assert (
        f'href="{provider.issuer}/oauth2/end_session?client_id={provider.client_id}&amp;post' in answer.content.decode()
    )
    assert "Sign out of Harbour too" in text(answer)
    assert client.get("/volumes").status_code == 302
    assert signed_in("ana").post("/sign-out")["Location"] == "/sign-in"  # no provider for a sign-in by password


def test_neither_pages_nor_logs_contain_proofs(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client()
    back = provider.signs_in(way_there(client), "eve-1")
    tokens: list[dict[str, Any]] = []
    provider.bends[TOKEN] = lambda answer: tokens.append(answer) or {**answer, "id_token": answer["id_token"] + "x"}
    answer = client.get(back)
    refused(answer, 502, "be verified")
    sent = provider.token_requests[-1]
    ours = "\n".join(one.getMessage() for one in caplog.records if one.name.startswith(("portal", "conductor")))
    for secret in (sent["code_verifier"], sent["code"], tokens[0]["access_token"], provider.client_secret):
        assert secret not in ours
        assert secret not in answer.content.decode()
    assert "NotProven" in ours
    assert logging.getLogger("authlib").getEffectiveLevel() >= logging.WARNING


def refused(answer: Any, status: int, words: str) -> None:
    """Check that the sign-in page shows the problem, and that no user is signed in."""
    assert answer.status_code == status, text(answer)
    assert words in text(answer)
    assert 'name="password"' in answer.content.decode()
    assert answer.headers["Cache-Control"] == "no-store"
    assert not User.objects.filter(username="eve").exists() or status in (400,)
    assert answer.client.get("/volumes").status_code == 302
