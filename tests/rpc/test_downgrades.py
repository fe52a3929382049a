"""Messages as earlier releases knew them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductor.rpc import messages  # registers every message
from conductor.rpc.backports import downgraded
from conductor.rpc.codec import decode, registered
from conductor.rpc.messages.downgrades import DOWNGRADES, Inexpressible
from conductor.rpc.versions import BROUGHT, SERVICE_VERSION, SERVICE_VERSION_HISTORY, known_to

CORPUS = Path(__file__).parent / "corpus"
BEFORE_FILES = next(number for number, brought in enumerate(BROUGHT) if brought.get("spawn_instance") == "1.5")
FIELDS = {path.stem: set(json.loads(path.read_text())["body"]) for path in CORPUS.glob("*.json")}


def body(stem: str) -> dict[str, Any]:
    return json.loads((CORPUS / f"{stem}.json").read_text())  # type: ignore[no-any-return]


def test_the_newest_service_version_knows_all_messages_as_they_are() -> None:
    assert messages.__all__
    assert len(BROUGHT) == len(SERVICE_VERSION_HISTORY)
    now = {name: f"{major}.{minor}" for name, (_, (major, minor)) in registered().items()}
    assert now == known_to(SERVICE_VERSION), "Add what is new on the wire to BROUGHT in conductor/rpc/versions.py"


def test_every_new_version_of_a_message_has_its_way_back() -> None:
    for number, brought in enumerate(BROUGHT[1:], start=1):
        before = known_to(number)
        for name, version in brought.items():
            if name in before:
                assert DOWNGRADES[name, version][0] == before[name]


@pytest.mark.parametrize(("name", "version"), DOWNGRADES)
def test_downgraded_messages_have_the_fields_of_the_earlier_version(name: str, version: str) -> None:
    """Its fields are those of the body that was frozen when that version was released."""
    before = DOWNGRADES[name, version][0]
    knowing = max(number for number in range(1, SERVICE_VERSION) if known_to(number).get(name) == before)
    reported = downgraded(body(f"{name}-{version}") | _defaults(name, version), knowing)
    assert reported["version"] == before
    assert set(reported["body"]) <= FIELDS[f"{name}-{before}"] | {"error"}
    assert name == decode(reported).MESSAGE_NAME


def _defaults(name: str, version: str) -> dict[str, Any]:
    """Return the frozen body, with the meaning that the earlier version had for what it does not name."""
    values = body(f"{name}-{version}")["body"]
    if "guest" not in values:
        return {}
    guest = {**values["guest"], "hardware": {}} | ({"files": []} if "files" in values["guest"] else {})
    if name != "spawn_instance":
        return {"body": {**values, "guest": guest}}
    return {"body": {**values, "is_running": True, "guest": {**guest, "volumes": [], "admin_password": ""}}}


def test_a_guest_is_described_as_the_earlier_version_knew_it() -> None:
    reported = downgraded(body("spawn_instance-1.2") | _defaults("spawn_instance", "1.2"), 1)
    assert set(reported["body"]["guest"]) == set(body("spawn_instance-1.0")["body"]["guest"])


def test_values_that_cannot_be_downgraded_are_refused() -> None:
    spawn = body("spawn_instance-1.2") | _defaults("spawn_instance", "1.2")
    off = {**spawn, "body": {**spawn["body"], "is_running": False}}
    with pytest.raises(Inexpressible, match=r"spawn_instance with is_running$"):
        downgraded(off, 1)
    assert downgraded(off, 2)["body"]["is_running"] is False
    with pytest.raises(Inexpressible, match="power_on"):
        downgraded(body("power_on-1.0"), 1)
    with pytest.raises(Inexpressible, match=r"destroy_instance 2\.0"):
        downgraded({**body("destroy_instance-1.0"), "version": "2.0"}, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("volumes", [{"volume_uuid": "v"}]),
        ("admin_password", "Xk29-quiet"),
        ("hardware", {"numa": None, "devices": [{"address": "0000:81:00.0", "alias": "gpu"}]}),
    ],
)
def test_lost_features_of_a_downgraded_guest_are_named_without_values(name: str, value: Any) -> None:
    spawn = body("spawn_instance-1.2") | _defaults("spawn_instance", "1.2")
    spawn["body"]["guest"][name] = value
    with pytest.raises(Inexpressible) as refused:
        downgraded(spawn, 1)
    assert str(refused.value) == f"spawn_instance with {name}"


def test_a_host_that_knows_the_message_gets_it_unchanged() -> None:
    for path in CORPUS.glob("*.json"):
        frozen = json.loads(path.read_text())
        assert downgraded(frozen, SERVICE_VERSION) == frozen


@pytest.mark.parametrize("name", ["attach_volume", "swap_volume"])
def test_a_volume_of_several_guests_is_not_for_hosts_that_lock_each(name: str) -> None:
    shared = body(f"{name}-1.1")
    shared["body"]["volume"]["is_shared"] = True
    with pytest.raises(Inexpressible, match="a volume of several guests"):
        downgraded(shared, BEFORE_FILES)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("files", [{"path": "/etc/motd", "contents": "eA=="}], "files"),
        ("volumes", [{"is_shared": True}], "a volume of"),
    ],
)
def test_features_that_only_newer_hosts_have_are_refused(name: str, value: Any, words: str) -> None:
    spawn = body("spawn_instance-1.5")
    spawn["body"]["guest"] |= {"files": [], name: value}
    with pytest.raises(Inexpressible, match=words):
        downgraded(spawn, BEFORE_FILES)
