"""Messages of running releases stay readable: no field changes without a new version, and old bodies still decode."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor.core.compute_driver import GuestSpec, Inventory, NetworkPort, NodeReport, PortAddress, VolumeConnection
from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, MoveSpec, RequestSpec
from conductor.rpc import messages  # registers every message
from conductor.rpc.codec import decode, encode, registered
from conductor.rpc.versions import SERVICE_VERSION

HERE = Path(__file__).parent
FINGERPRINTS = HERE / "fingerprints.json"
CORPUS = HERE / "corpus"

ADVICE = """
The fields of {name} {version} are not those that this version had when it was first released: {fields}.
Releases that run side by side would misread each other. Give the message a new version (minor for a new field with a
default, major for anything else), add a line to SERVICE_VERSION_HISTORY in conductor/rpc/versions.py, put a body of the
new version into tests/rpc/corpus/, and add this line to tests/rpc/fingerprints.json:
    "{name} {version}": "{found}"
A line that is there already is never changed.
"""


# Values that travel inside a message are a part of its shape: by the name of the field that carries them.
CARRIED: dict[str, tuple[type[Any], ...]] = {
    "guest": (GuestSpec, FlavorSpec, ImageSpec, NetworkPort, PortAddress, VolumeConnection),
    "volume": (VolumeConnection,),
    "port": (NetworkPort, PortAddress),
    "report": (NodeReport, Inventory),
    "spec": (RequestSpec, FlavorSpec, ImageSpec, GroupSpec, MoveSpec),
}


def shape(message: type[Any]) -> list[str]:
    """Return one text per field: name, type, and default where there is one; then those of the values that it
    carries.
    """
    lines = [
        f"{field.name}: {field.type}{_default(field)}"
        for field in sorted(dataclasses.fields(message), key=lambda field: field.name)
    ]
    names = [field.name for field in dataclasses.fields(message)] if hasattr(message, "MESSAGE_NAME") else []
    carried = [kind for name in names for kind in CARRIED.get(name, ())]
    return lines + [f"{kind.__name__}.{line}" for kind in carried for line in shape(kind)]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return " = made"
    return "" if field.default is dataclasses.MISSING else f" = {field.default!r}"


def fingerprint(message: type[Any]) -> str:
    return hashlib.sha256("\n".join(shape(message)).encode()).hexdigest()[:16]


def known() -> dict[str, str]:
    return json.loads(FINGERPRINTS.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", sorted(registered()))
def test_fields_change_only_with_the_version(name: str) -> None:
    message, (major, minor) = registered()[name]
    version = f"{major}.{minor}"
    found = fingerprint(message)
    advice = ADVICE.format(name=name, version=version, found=found, fields="; ".join(shape(message)))
    assert known().get(f"{name} {version}") == found, advice


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_version_has_a_body_that_must_stay_readable(name: str) -> None:
    _, (major, minor) = registered()[name]
    assert (CORPUS / f"{name}-{major}.{minor}.json").exists()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_old_bodies_still_decode(path: Path) -> None:
    sent = json.loads(path.read_text())
    assert path.stem == f"{sent['message']}-{sent['version']}"
    message = decode(sent)
    for field, value in sent["body"].items():
        assert getattr(message, field) == value
    # The receiver may pass it on.
    assert decode(encode(message)) == message


def test_values_inside_messages_are_decoded_without_newer_fields() -> None:
    spawn = json.loads((CORPUS / "spawn_instance-1.5.json").read_text())["body"]["guest"]
    guest = GuestSpec.from_json(spawn)
    assert json.loads(json.dumps(guest.to_json())) == spawn
    newer = {**spawn, "new": 1, "flavor": {**spawn["flavor"], "new": 1}, "ports": [{**spawn["ports"][0], "new": 1}]}
    newer["volumes"] = [{**spawn["volumes"][0], "new": 1}]
    assert GuestSpec.from_json(newer) == guest
    older = json.loads((CORPUS / "spawn_instance-1.0.json").read_text())["body"]["guest"]
    ports = tuple(replace(port, network_uuid="", more=()) for port in guest.ports)
    assert GuestSpec.from_json(older) == replace(
        guest, ports=ports, volumes=(), admin_password="", hardware={}, files=()
    )
    report = json.loads((CORPUS / "host_reported-1.1.json").read_text())["body"]["report"]
    node = NodeReport.from_json(report)
    assert json.loads(json.dumps(node.to_json())) == report
    assert NodeReport.from_json({**report, "new": 1}) == node
    older = json.loads((CORPUS / "host_reported-1.0.json").read_text())["body"]["report"]
    assert NodeReport.from_json(older) == replace(node, numa_cells=(), pci_devices=(), metrics={})


def test_no_released_version_is_forgotten() -> None:
    assert {path.stem.replace("-", " ") for path in CORPUS.glob("*.json")} == set(known())
    assert {line.split()[0] for line in known()} == set(registered())


def test_all_messages_are_exported_and_the_service_version_is_their_history() -> None:
    assert {message.__name__ for message, _ in registered().values()} == set(messages.__all__) - {"Command"}
    assert SERVICE_VERSION >= 1


def test_older_versions_of_a_command_keep_their_meaning() -> None:
    spawn = decode(json.loads((CORPUS / "spawn_instance-1.0.json").read_text()))
    assert spawn.is_running is True
    assert decode(json.loads((CORPUS / "step_progressed-1.0.json").read_text())).figures == {}


def test_a_changed_field_is_noticed() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Before:
        host: str
        share: float | None = None

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Renamed:
        node: str
        share: float | None = None

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Retyped:
        host: str
        share: int | None = None

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class NewDefault:
        host: str
        share: float | None = 0.0

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Reordered:
        share: float | None = None
        host: str

    prints = [fingerprint(kind) for kind in (Before, Renamed, Retyped, NewDefault)]
    assert len(set(prints)) == 4
    assert fingerprint(Reordered) == fingerprint(Before)  # the wire has names, no order
