"""Attacks with delegations that outlive their token: they have no more authority, and expire no later, than it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from conductor.api_db.models import ConsoleShare, ConsoleToken, KeyPair, SnapshotSchedule, Subscription
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Forbidden, Invalid
from conductor.db.transactions import database_now
from conductor.identity import tokens
from conductor.identity.models import ApplicationCredential
from conductor.rpc.messages import ConsolesOffered
from conductor.services.accounts import sign_in
from conductor.services.consoles import connections, consoles
from conductor.services.notifications import subscribers
from conductor.services.servers import due_snapshots, keypairs
from tests import factories
from tests.api_client import ApiClient
from tests.compute_rows import make_cloud
from tests.fixtures.delegation import V3, by_credential, credential_of, log_in, trusted

KEYS = "/compute/v2.1/os-keypairs"


@dataclass(frozen=True)
class Credential:
    """An application credential: its id, and a client with a token of it."""

    id: str
    client: ApiClient


def credential(owner: Any, own: ApiClient, **more: Any) -> Credential:
    made = credential_of(own, owner.user.id, **more)
    assert made.status_code == 201, made.content
    shown = made.json()["application_credential"]
    return Credential(shown["id"], ApiClient(log_in(by_credential(shown)).headers["X-Subject-Token"]))


def end(own: ApiClient, owner: Any, one: Credential) -> None:
    assert own.delete(f"{V3}/users/{owner.user.id}/application_credentials/{one.id}").status_code == 204


def one_use_trust(people: Any, ana: ApiClient) -> ApiClient:
    return trusted(people, lambda name: ana, remaining_uses=1)[1]


def restricted(people: Any, ana: ApiClient) -> ApiClient:
    return credential(people.ana, ana, expires_at="2100-01-01T00:00:00Z").client


def with_rules(people: Any, ana: ApiClient) -> ApiClient:
    rules = [{"service": "novella", "method": "POST", "path": "/**"}]
    return credential(people.ana, ana, unrestricted=True, access_rules=rules).client


@pytest.fixture
def server(people: Any) -> Any:
    """Ana's server, on a host with a console."""
    factories.cells()
    factories.host("host-1")
    reported = ConsolesOffered(host="host-1", address="127.0.0.1", tcp_port=7000, fingerprint="f", key="k")
    connections.record("cell1", reported)
    return factories.instance(people.ana.context(), "web-1", host="host-1", node="host-1")


def requests_of(server: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    schedule = {"server": str(server.uuid), "every": "day", "at": "02:30", "keep": 2}
    hook = {"name": "mine", "url": "https://93.184.216.34/hook"}
    return {
        "subscription": ("/api/subscriptions", hook),
        "schedule": ("/api/snapshot-schedules", {"snapshot_schedule": schedule}),
        "share": (f"/api/servers/{server.uuid}/console-shares", {"kind": "serial", "minutes": 240}),
    }


@pytest.mark.parametrize("handed_on", [one_use_trust, restricted, with_rules])
def test_delegated_tokens_cannot_create_lasting_work(
    people: Any, api_client: Any, server: Any, handed_on: Callable[..., ApiClient]
) -> None:
    client = handed_on(people, api_client("ana"))
    for name, (path, body) in requests_of(server).items():
        answer = client.post(path, body)
        assert (answer.status_code, b"snapshot schedules" in answer.content) == (403, True), (name, answer.content)
    for kind in (Subscription, SnapshotSchedule, ConsoleShare):
        assert not kind._default_manager.exists()


def test_work_of_a_credential_ends_with_it(people: Any, api_client: Any, server: Any) -> None:
    ana = api_client("ana")
    robot = credential(people.ana, ana, unrestricted=True)
    for name, (path, body) in requests_of(server).items():
        assert robot.client.post(path, body).status_code == 201, name
    row, share = Subscription.objects.get(), ConsoleShare.objects.get()
    watcher = people.rea.context()
    token = consoles.grant(watcher, str(server.uuid), ConsoleKind.SERIAL, share=share).token
    hashed = consoles.hash_of(token)
    consoles.check(hashed, lambda _: None)
    end(ana, people.ana, robot)
    subscribers.deliver("cell1", row, "teller")
    row.refresh_from_db()
    assert (row.is_enabled, row.off_reason) == (False, subscribers.RIGHTS_GONE)
    SnapshotSchedule.objects.update(due_at=database_now(-1), look_at=database_now(-1))
    due_snapshots.look()
    assert SnapshotSchedule.objects.get().ended_at is not None
    with pytest.raises(Forbidden):
        consoles.check(hashed, lambda _: None)


def test_work_of_a_credential_has_the_credentials_roles_only(people: Any, api_client: Any) -> None:
    factories.cells()
    admin = api_client("admin")
    robot = credential(people.admin, admin, unrestricted=True, roles=[{"name": "member"}])
    hook = {"name": "all", "channel": "bell", "cloud_wide": True}
    assert robot.client.post("/api/subscriptions", hook).status_code == 403
    made = robot.client.post("/api/subscriptions", {**hook, "cloud_wide": False})
    assert made.status_code == 201, made.content
    row = Subscription.objects.get()
    owner = sign_in.context_for(row.user_id, row.project_id, "", row.delegated_by)
    assert owner is not None
    assert (sorted(owner.roles), owner.is_admin) == (["member", "reader"], False)
    ApplicationCredential.objects.update(expires_at=database_now(-1))
    assert sign_in.context_for(row.user_id, row.project_id, "", row.delegated_by) is None


def test_a_delegation_is_for_its_own_user_and_project(people: Any, api_client: Any) -> None:
    robot = credential(people.ana, api_client("ana"))
    named = f"application_credential:{robot.id}"
    ana, chi = people.ana, people.chi
    assert sign_in.context_for(ana.user.id, ana.project.id, "", named) is not None
    assert sign_in.context_for(chi.user.id, ana.project.id, "", named) is None
    assert sign_in.context_for(ana.user.id, chi.project.id, "", named) is None


def test_a_credential_turns_no_other_subscription_to_itself(people: Any, api_client: Any) -> None:
    factories.cells()
    ana = api_client("ana")
    made = ana.post("/api/subscriptions", {"name": "own", "url": "https://93.184.216.34/"}).json()
    path = f"/api/subscriptions/{made['subscription']['uuid']}"
    for one in ({}, {"unrestricted": True, "name": "wide"}):
        robot = credential(people.ana, ana, **one)
        moved = robot.client.patch(path, {"url": "https://93.184.216.35/"}, headers={"If-Match": '"1"'})
        assert moved.status_code == 403, moved.content
        assert robot.client.post(f"{path}/secret", headers={"If-Match": '"1"'}).status_code == 403
    assert Subscription.objects.get().revision == 1


@pytest.mark.parametrize("handed_on", [one_use_trust, restricted])
def test_delegated_tokens_cannot_replace_key_pairs_of_the_user(
    people: Any, api_client: Any, handed_on: Callable[..., ApiClient]
) -> None:
    ana = api_client("ana")
    assert ana.post(KEYS, {"keypair": {"name": "laptop"}}).status_code == 200
    kept = KeyPair.objects.get().public_key
    client = handed_on(people, ana)
    assert client.delete(f"{KEYS}/laptop").status_code == 403
    assert KeyPair.objects.get().public_key == kept
    assert client.post(KEYS, {"keypair": {"name": "robot"}}).status_code == 200
    assert client.delete(f"{KEYS}/robot").status_code == 202  # its own
    assert client.post(KEYS, {"keypair": {"name": "robot"}}).status_code == 200
    assert ana.delete(f"{KEYS}/robot").status_code == 202


def test_a_key_pair_opens_no_server_once_its_credential_has_ended(people: Any, api_client: Any) -> None:
    cloud = make_cloud(people)
    ana = api_client("ana", version="2.60")
    robot = credential(people.ana, ana)
    assert robot.client.post(KEYS, {"keypair": {"name": "robot"}}).status_code == 200
    wanted = {"name": "web-2", "flavorRef": "1", "imageRef": str(cloud.image.uuid), "networks": "none"}
    launch = {"server": {**wanted, "key_name": "robot"}}
    accepted = ana.post("/compute/v2.1/servers", launch)
    assert accepted.status_code == 202, accepted.content
    end(ana, people.ana, robot)
    refused = ana.post("/compute/v2.1/servers", launch)
    assert (refused.status_code, b"key_name" in refused.content) == (400, True), refused.content
    with pytest.raises(Invalid, match="key_name"):
        keypairs.key_for_guest(people.ana.user.id, "robot", field="key_name")  # as a rebuild asks for it
    assert ana.get(f"{KEYS}/robot").status_code == 200  # still listed, for its owner to delete


def test_a_console_ends_with_the_token_that_opened_it(people: Any, api_client: Any, server: Any) -> None:
    ana = api_client("ana")
    for client in (ana, restricted(people, ana), one_use_trust(people, ana)):
        context = tokens.validate(str(client.token)).context("req-1")
        hashed = consoles.hash_of(consoles.grant(context, str(server.uuid), ConsoleKind.SERIAL).token)
        assert ConsoleToken.objects.get(token_hash=hashed).token_digest
        consoles.check(hashed, lambda _: None)
        gone = client.call("DELETE", f"{V3}/auth/tokens", headers={"X-Subject-Token": str(client.token)})
        assert gone.status_code == 204
        with pytest.raises(Forbidden):
            consoles.check(hashed, lambda _: None)
        ana = api_client("ana")
