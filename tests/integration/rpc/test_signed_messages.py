"""Messages without a valid signature change nothing: for each kind of message, from each attacker.

One attacker has the broker's URL and no key, the other has the key of host-a. Each message is about host-b.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.actors import compute as compute_actors
from conductor.actors import conductor as conductor_actors
from conductor.api_db.models import CellMapping
from conductor.cell_db.models import ConsoleAddress, ConsoleLog, Instance
from conductor.core.context import system_context
from conductor.core.states import PowerState
from conductor.db.transactions import database_now
from conductor.journal.models import AuditRecord, OutboxMessage
from conductor.rpc import broker, envelope, trust
from conductor.rpc import messages as m
from conductor.rpc.codec import encode, registered
from conductor.rpc.envelope import CONDUCTOR, Signer, SigningKey
from conductor.rpc.identities import HostIdentity
from conductor.rpc.key_store import STORE
from conductor.rpc.refusals import MOST_ROWS
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.hosts import keys as host_keys
from conductor.services.operations import refused_messages
from tests import factories, keys
from tests.tiny_driver import TinyDriver

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

CELL, QUEUE = "cell1", "conductor.cell1"
CORPUS = Path(__file__).parents[2] / "rpc" / "corpus"
OF_HOSTS = sorted(name for name, kind in trust.KINDS.items() if kind.sender == trust.HOST)
OF_CONDUCTORS = sorted(name for name, kind in trust.KINDS.items() if kind.actor == trust.TO_COMPUTE)
UNSEEN = ("journal_auditrecord", "django_session", "sqlite_sequence")
Rows = dict[str, list[tuple[Any, ...]]]


class Scene:
    """Two hosts with keys; host-b has a guest, a console, and a step that its conductor waits for."""

    def __init__(self, folder: Path, people: Any) -> None:
        factories.cells()
        for host in ("host-a", "host-b"):
            factories.host(host, CELL)
        self.a, self.b = (keys.enroll(folder, host, CELL) for host in ("host-a", "host-b"))
        caller = people.ana.context()
        self.guest = factories.instance(caller, "web-1", host="host-b", power_state=PowerState.RUNNING)
        factories.console(self.guest, "login: ")
        announcement = {"address": "192.0.2.2", "tcp_port": 7000, "fingerprint": "f" * 64, "key": "b" * 43}
        ConsoleAddress.objects.using(CELL).create(host="host-b", updated_at=database_now(), **announcement)
        self.run = factories.run(caller, CELL, state="waiting", instance_uuid=self.guest.uuid)
        self.step_key = f"{self.run.uuid}:do:0:1:1"
        factories.step(self.run, 0, 5, state="waiting", host="host-b", step_key=self.step_key)
        OutboxMessage.objects.using(CELL).create(
            step_key=self.step_key, run_uuid=self.run.uuid, queue="compute.host-b", host="host-b", body={},
            send_again_at=database_now(3600), created_at=database_now(),
        )  # fmt: skip

    def about(self, host: str) -> dict[str, Any]:
        """Return one message of each kind that hosts send: about host-b's guest and step, in the name of `host`."""
        step = {"step_key": self.step_key, "run_uuid": str(self.run.uuid), "fencing_token": 10**9, "host": host}
        uuid = str(self.guest.uuid)
        piece = {"instance_uuid": uuid, "offset": 0, "text": "forged"}
        report = reported(host, {})
        return {
            "step_answered": m.StepAnswered(**step, ok=True, result={"forged": True}),
            "step_progressed": m.StepProgressed(**step, message="forged", share=0.5),
            "host_reported": report,
            "console_written": m.ConsoleWritten(host=host, **piece),
            "consoles_written": m.ConsolesWritten(host=host, pieces=[piece]),
            "consoles_offered": m.ConsolesOffered(
                host=host, address="198.51.100.1", tcp_port=1, fingerprint="e" * 64, key="x"
            ),
            "guests_counted": m.GuestsCounted(host=host, counted_at=1000.0, guests={uuid: [1.0]}),
            "refusals_counted": m.RefusalsCounted(
                host=host, refusals=[{"sender": "conductor", "kind": "x", "cause": "key", "times": 1}]
            ),
        }


def reported(host: str, guests: dict[str, int], **values: Any) -> m.HostReported:
    wire: dict[str, Any] = {"driver": "tiny", "is_simulated": True, "service_version": SERVICE_VERSION}
    report = TinyDriver(host).report().to_json()
    report["capabilities"] = {**report.get("capabilities", {}), **values}
    return m.HostReported(
        host=host, cell=CELL, report_number=10**15, availability_zone="az-1", report=report, guests=guests, **wire
    )


@pytest.fixture
def scene(people: Any, tmp_path: Path) -> Iterator[Scene]:
    refused_messages.listen()
    refused_messages.flush(is_urgent=True)
    made = Scene(tmp_path, people)
    yield made
    keys.install()


def everything() -> Rows:
    """Return every row of every database, but for the audit log."""
    found: Rows = {}
    for alias in ("default", "cell0", "cell1", "cell2"):
        connection = connections[alias]
        for table in connection.introspection.table_names():
            if not table.startswith(UNSEEN):
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT * FROM {table}")
                    if rows := cursor.fetchall():
                        found[f"{alias} {table}"] = rows
    return found


def refused(cause: str) -> list[dict[str, Any]]:
    """Return the audited refusals, which all have this cause, and empty the log."""
    refused_messages.flush(is_urgent=True)
    records = list(AuditRecord.objects.filter(action="message.refuse"))
    assert [record.result for record in records] == ["refused"], records
    rows: list[dict[str, Any]] = records[0].details["refusals"]
    assert {row["cause"] for row in rows} == {cause}, rows
    AuditRecord.objects.all().delete()
    return rows


def forged(sender: str) -> Signer:
    """Return a signer with a key that was never enrolled."""
    return envelope.signer(sender, SigningKey.new())


def claiming(sender: str, key: HostIdentity) -> Signer:
    """Return a signer with a host's key that calls itself something else."""
    return Signer(sender, key.signer.key, key.signer.key_id)


def test_every_kind_of_message_has_its_rule() -> None:
    assert set(trust.KINDS) == {*registered(), trust.NOTIFICATION}
    assert {name for name, kind in trust.KINDS.items() if kind.actor == trust.TO_CONDUCTOR} == {
        cls.MESSAGE_NAME for cls in conductor_actors.RECEIVERS
    }
    assert {*OF_CONDUCTORS, "select_destinations"} == {
        name for name in registered() if trust.KINDS[name].sender == CONDUCTOR
    }


# -- what reaches a conductor

ATTACKS: dict[str, tuple[str, Callable[[Scene, Any], Any]]] = {
    "no envelope": ("unsigned", lambda at, wire: {"cell": CELL, **encode(wire)}),
    "a key of one's own": ("key", lambda at, wire: keys.sealed(forged("host:host-b"), CELL, wire)),
    "a made-up signature": ("signature", lambda at, wire: keys.sealed(at.b.signer, CELL, wire, signature="AAAA")),
    "host-a's key as host-b": ("key", lambda at, wire: keys.sealed(claiming("host:host-b", at.a), CELL, wire)),
    "host-a's key as itself": ("host", lambda at, wire: keys.sealed(at.a.signer, CELL, wire)),
    "host-a's key as a conductor": ("sender", lambda at, wire: keys.sealed(claiming(CONDUCTOR, at.a), CELL, wire)),
    "another body": ("signature", lambda at, wire: other_body(at, wire)),
    "an old one": ("signature", lambda at, wire: keys.sealed(at.b.signer, CELL, wire, issued_at=time.time() - 301)),
}


def other_body(at: Scene, wire: Any) -> dict[str, Any]:
    """Return an envelope of host-b around the attacker's message."""
    caught = keys.sealed(at.b.signer, CELL, reported("host-b", {}))
    return {**caught, "kind": wire.MESSAGE_NAME, "body": json.dumps({"cell": CELL, **encode(wire)})}


@pytest.mark.parametrize("kind", OF_HOSTS)
def test_a_conductor_takes_nothing_about_a_host_that_the_host_did_not_sign(scene: Scene, kind: str) -> None:
    wire = scene.about("host-b")[kind]
    before = everything()
    for cause, attack in ATTACKS.values():
        conductor_actors.conductor_message(attack(scene, wire))
        assert everything() == before
        rows = refused(cause)
        assert [row["times"] for row in rows] == [1]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("step_answered", "step"),
        ("step_progressed", "step"),
        ("console_written", "guest"),
        ("consoles_written", "guest"),
        ("guests_counted", "guest"),
    ],
)
def test_the_key_of_one_host_is_not_accepted_for_guests_and_steps_of_another(
    scene: Scene, kind: str, cause: str
) -> None:
    before = everything()
    conductor_actors.conductor_message(keys.sealed(scene.a.signer, CELL, scene.about("host-a")[kind]))
    assert everything() == before
    (row,) = refused(cause)
    assert (row["sender"], row["kind"]) == ("host:host-a", kind)


def test_an_answer_counts_for_the_run_of_its_step_only(scene: Scene, people: Any) -> None:
    other = factories.run(people.ana.context(), CELL, state="waiting")
    wire = m.StepAnswered(
        step_key=scene.step_key, run_uuid=str(other.uuid), fencing_token=1, host="host-b", ok=True, result={}
    )
    before = everything()
    conductor_actors.conductor_message(keys.sealed(scene.b.signer, CELL, wire))
    assert everything() == before
    refused("step")


def test_guests_of_other_hosts_are_left_out_of_a_report(scene: Scene, people: Any) -> None:
    own = factories.instance(people.ana.context(), "web-2", host="host-a")
    pieces = [{"instance_uuid": str(one.uuid), "offset": 0, "text": "new"} for one in (own, scene.guest)]
    wire = m.ConsolesWritten(host="host-a", pieces=pieces)
    conductor_actors.conductor_message(keys.sealed(scene.a.signer, CELL, wire))
    logs = dict(ConsoleLog.objects.using(CELL).values_list("instance_uuid", "text"))
    assert logs == {own.uuid: "new", scene.guest.uuid: "login: "}
    refused("guest")


def test_a_report_that_claims_the_guest_of_another_host_touches_only_its_own(scene: Scene) -> None:
    """host-a may destroy its own guests; host-b's stay, and host-b gets no command."""
    for number in range(3):
        wire = reported("host-a", {str(scene.guest.uuid): int(PowerState.SHUTDOWN)})
        wire = m.HostReported(**{**encode(wire)["body"], "report_number": 10**15 + number})
        conductor_actors.conductor_message(keys.sealed(scene.a.signer, CELL, wire))
    guest = Instance.objects.using(CELL).get(uuid=scene.guest.uuid)
    assert (guest.host, guest.power_state, guest.task_state) == ("host-b", PowerState.RUNNING, None)
    sent = OutboxMessage.objects.using(CELL).exclude(step_key=scene.step_key)
    assert {message.host for message in sent} <= {"host-a"}


@pytest.mark.parametrize("name", ["host-b", "host-c"])
def test_a_host_reports_no_node_with_the_name_of_another_host(scene: Scene, tmp_path: Path, name: str) -> None:
    """host-c is enrolled and has not reported yet: it finds its name free."""
    keys.enroll(tmp_path, "host-c", CELL)
    before = everything()
    wire = reported("host-a", {})
    wire = dataclasses.replace(wire, report={**wire.report, "node": name})
    conductor_actors.conductor_message(keys.sealed(scene.a.signer, CELL, wire))
    assert everything() == before
    (row,) = refused("host")
    assert (row["sender"], row["kind"]) == ("host:host-a", "host_reported")


def test_messages_of_a_host_count_in_its_own_cell_only(scene: Scene) -> None:
    before = everything()
    wire = reported("host-a", {})
    conductor_actors.conductor_message(keys.sealed(scene.a.signer, "cell2", wire))
    refused("cell")
    sealed = scene.a.signer.seal("host_reported", "conductor.cell2", {"cell": CELL, **encode(wire)})
    conductor_actors.conductor_message(sealed)
    refused("recipient")
    assert everything() == before


def test_a_message_of_the_host_itself_is_accepted_once(scene: Scene) -> None:
    wire = scene.about("host-b")["step_progressed"]
    sealed = keys.sealed(scene.b.signer, CELL, wire)
    before = everything()
    conductor_actors.conductor_message(sealed)
    after = everything()
    assert after != before
    conductor_actors.conductor_message(sealed)
    assert everything() == after
    refused("replay")


@pytest.mark.parametrize("kind", OF_HOSTS)
def test_another_conductor_takes_no_message_again(scene: Scene, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that one conductor process has accepted is replayed to another, without its memory."""
    first, second = scene.about("host-b")[kind], _later(scene.about("host-b")[kind])
    sealed = keys.sealed(scene.b.signer, CELL, first)
    conductor_actors.conductor_message(sealed)
    conductor_actors.conductor_message(keys.sealed(scene.b.signer, CELL, second))
    refused_messages.flush(is_urgent=True)
    AuditRecord.objects.all().delete()
    before = everything()
    monkeypatch.setattr(trust, "_nonces", trust.Nonces())
    conductor_actors.conductor_message(sealed)
    refused_messages.flush(is_urgent=True)
    assert everything() == before
    lines = [row for record in AuditRecord.objects.all() for row in record.details["refusals"]]
    assert [row["cause"] for row in lines] in ([], ["replay"]), "what an old message says is on no record"


def _later(message: Any) -> Any:
    """Return a newer message of the same kind with other contents."""
    changes: dict[str, Any] = {
        "step_progressed": {"message": "later", "share": 0.7},
        "host_reported": {"report_number": 10**15 + 1},
        "console_written": {"offset": 6, "text": " later"},
        "consoles_written": {
            "pieces": [{**piece, "offset": 6, "text": " later"} for piece in getattr(message, "pieces", ())]
        },
        "consoles_offered": {"address": "198.51.100.2", "tcp_port": 2},
        "guests_counted": {"counted_at": 2000.0},
    }
    return dataclasses.replace(message, **changes.get(encode(message)["message"], {}))


def test_an_old_message_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = keys.sealed(scene.b.signer, CELL, reported("host-b", {}))
    now, before = sealed["issued_at"], everything()
    for shift in (301.0, -301.0):
        monkeypatch.setattr(trust.time, "time", lambda shift=shift: now + shift)
        conductor_actors.conductor_message(sealed)
        refused("age")
    monkeypatch.undo()
    assert everything() == before


def test_only_conductors_notify(scene: Scene) -> None:
    body = {"alias": CELL, "run_uuid": str(scene.run.uuid)}
    before = everything()
    for cause, sealed in (
        ("unsigned", body),
        ("key", forged(CONDUCTOR).seal(trust.NOTIFICATION, QUEUE, body)),
        ("key", claiming(CONDUCTOR, scene.a).seal(trust.NOTIFICATION, QUEUE, body)),
        ("sender", scene.a.signer.seal(trust.NOTIFICATION, QUEUE, body)),
        ("sender", keys.sealed(scene.a.signer, CELL, reported("host-a", {}))),
    ):
        conductor_actors.conductor_notified(sealed)
        refused(cause)
    assert everything() == before


def test_a_key_that_was_revoked_counts_no_longer(scene: Scene) -> None:
    assert host_keys.revoke(system_context(), "host-b") == 1
    before = everything()
    conductor_actors.conductor_message(keys.sealed(scene.b.signer, CELL, reported("host-b", {})))
    AuditRecord.objects.exclude(action="message.refuse").delete()
    refused("key")
    assert everything() == before


# -- what reaches a host


class Agent:
    """Takes commands for host-b."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def has_host(self, host: str) -> bool:
        return host == "host-b"

    def receive(self, body: Any) -> None:
        self.taken.append(body)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent()
    monkeypatch.setattr(compute_actors, "_agents", [made])
    return made


def command(kind: str, host: str = "host-b") -> dict[str, Any]:
    (major, minor) = registered()[kind][1]
    wire: dict[str, Any] = json.loads((CORPUS / f"{kind}-{major}.{minor}.json").read_text())
    return {**wire, "body": {**wire["body"], "host": host}}


@pytest.mark.parametrize("kind", OF_CONDUCTORS)
def test_a_host_accepts_commands_of_conductors_only(scene: Scene, agent: Agent, kind: str) -> None:
    wire, conductor = command(kind), STORE.signer()
    late = {**conductor.seal(kind, "host:host-b", wire), "issued_at": time.time() - 301}
    before = everything()
    for cause, sealed in (
        ("unsigned", wire),
        ("key", forged(CONDUCTOR).seal(kind, "host:host-b", wire)),
        ("key", claiming(CONDUCTOR, scene.a).seal(kind, "host:host-b", wire)),
        ("sender", scene.a.signer.seal(kind, "host:host-b", wire)),
        ("sender", scene.b.signer.seal(kind, "host:host-b", wire)),
        ("signature", late),
        ("recipient", conductor.seal(kind, "host:host-a", wire)),
        ("recipient", conductor.seal(kind, QUEUE, wire)),
        ("signature", conductor.seal("power_off" if kind != "power_off" else "power_on", "host:host-b", wire)),
    ):
        compute_actors.compute_message(sealed)
        assert agent.taken == []
        refused(cause)
    sealed = conductor.seal(kind, "host:host-b", wire)
    for _ in range(2):
        compute_actors.compute_message(sealed)
    assert agent.taken == [wire]
    refused("replay")
    assert everything() == before


# -- malformed bodies

SURROGATE, DEEP = '"\ud800"', "[" * 200_000  # a lone surrogate as it is, and as JSON spells it
SPELLED = '{"message": "%s", "cell": "cell1", "body": {"host": "\\ud800"}}'
DEEP_PART = '{"message": "%s", "cell": "cell1", "body": {"host": "host-a", "x": ' + "[" * 500 + "]" * 500 + "}}"


def with_body(signer: Signer, kind: str, recipient: str, text: str) -> dict[str, Any]:
    """Return an envelope around a text, signed where it can be."""
    sealed = {**signer.seal(kind, recipient, {}), "body": text}
    if not text.isascii():
        return sealed
    unsigned = envelope.Envelope(**{**sealed, "digest": envelope.digest_of(text), "signature": ""})
    signature = envelope.to_text(signer.key.private.sign(unsigned.header()))
    return {**dataclasses.asdict(unsigned), "signature": signature}


@pytest.mark.parametrize("text", [SURROGATE, DEEP, SPELLED, DEEP_PART], ids=["surrogate", "deep", "spelled", "part"])
def test_a_body_that_nothing_can_read_or_store_is_refused_and_counted(scene: Scene, agent: Agent, text: str) -> None:
    before = everything()
    kinds = [(OF_HOSTS[0], scene.a.signer, QUEUE, conductor_actors.conductor_message)]
    kinds += [(OF_CONDUCTORS[0], STORE.signer(), "host:host-b", compute_actors.compute_message)]
    for kind, signer, recipient, receive in kinds:
        receive(with_body(signer, kind, recipient, text.replace("%s", kind)))
        assert sum(row["times"] for row in refused("unsigned")) == 1
    assert agent.taken == []
    assert everything() == before


@pytest.mark.parametrize("name", ["kind", "sender", "recipient", "key_id"])
@pytest.mark.parametrize("text", ["a\x00", "\ud800", "\x1b[2J"])
def test_an_envelope_with_a_name_that_nothing_can_store_is_refused_and_counted(
    scene: Scene, name: str, text: str
) -> None:
    conductor_actors.conductor_message({**keys.sealed(scene.a.signer, CELL, reported("host-a", {})), name: text})
    assert sum(row["times"] for row in refused("unsigned")) == 1


def test_a_host_reports_no_refusals_under_names_that_nothing_can_store(scene: Scene) -> None:
    counts = [{"sender": text, "kind": "x", "cause": "key", "times": 1} for text in ("a\x00", "\x1b[2J", "conductor")]
    conductor_actors.conductor_message(
        keys.sealed(scene.a.signer, CELL, m.RefusalsCounted(host="host-a", refusals=counts))
    )
    assert [row["sender"] for row in refused("key")] == ["conductor"]


# -- noise


def test_invalid_messages_do_not_fill_the_audit_log_or_memory(scene: Scene) -> None:
    for number in range(500):
        sealed = keys.sealed(forged(f"host:{number}"), CELL, reported("host-b", {}))
        conductor_actors.conductor_message({**sealed, "sender": f"host:{number}"})
        if number % 100 == 0:
            refused_messages.flush()
    refused_messages.flush(is_urgent=True)
    records = list(AuditRecord.objects.filter(action="message.refuse"))
    assert len(records) <= 2
    rows = [row for record in records for row in record.details["refusals"]]
    assert sum(row["times"] for row in rows) == 500
    assert all(len(record.details["refusals"]) <= MOST_ROWS + 1 for record in records)


# -- rotation


class Linked:
    """host-b as its conductors know it: its reports go out, what they announce comes in."""

    def __init__(self, identity: HostIdentity, monkeypatch: pytest.MonkeyPatch) -> None:
        self.identity, self.number, self.refusals = identity, 10**15, list[Any]()
        monkeypatch.setattr(trust, "_listeners", [self.refusals.append])
        monkeypatch.setattr(broker, "_send", self._take)

    def report(self) -> None:
        self.number += 1
        wire = reported("host-b", {}, keys=self.identity.summary)
        wire = m.HostReported(**{**encode(wire)["body"], "report_number": self.number})
        conductor_actors.conductor_message(keys.sealed(self.identity.signer, CELL, wire))

    def _take(self, actor: str, queue: str, sealed: dict[str, Any]) -> None:
        body = trust.opened(actor, json.loads(json.dumps(sealed))).body["body"]
        self.identity.renew(body["conductor_keys"], body["accepted"], body["replace"])


def test_a_host_replaces_its_key_without_a_stop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    linked, first = Linked(scene.b, monkeypatch), scene.b.signer
    linked.report()
    assert scene.b.signer == first
    host_keys.rotate(system_context(), "host-b")
    under_way = keys.sealed(first, CELL, scene.about("host-b")["step_progressed"])
    for _ in range(4):
        linked.report()
    assert scene.b.signer.key_id != first.key_id
    assert [one.ends_at is None for one in host_keys.list_keys("host-b")] == [False, True]
    conductor_actors.conductor_message(under_way)  # signed before, and received after
    assert linked.refusals == []
    monkeypatch.setattr(trust, "WINDOW_SECONDS", 10_000.0)
    now = time.time()
    monkeypatch.setattr(trust.time, "time", lambda: now + 400.0)
    conductor_actors.conductor_message(keys.sealed(first, CELL, reported("host-b", {})))
    assert [one.cause for one in linked.refusals] == ["key"]


def test_conductors_replace_their_key_without_a_stop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    linked, first = Linked(scene.b, monkeypatch), STORE.signer()
    linked.report()
    second = host_keys.rotate_conductors(system_context(), after_seconds=600.0, keep_seconds=3600.0)
    assert STORE.signer() == first
    linked.report()
    assert set(scene.b.summary["conductors"]) == {first.key_id, second}
    now = time.time()
    monkeypatch.setattr(trust.time, "time", lambda: now + 601.0)
    assert STORE.signer().key_id == second
    away = scene.a  # it knows the first key only, and learns of the second by it
    assert away.summary["conductors"] == [first.key_id]
    assert STORE.signer(away.summary["conductors"]) == first
    monkeypatch.setattr(trust.time, "time", lambda: now + 601.0 + 3600.0)
    assert list(STORE.conductor_keys()) == [second]
    linked.report()
    assert scene.b.summary["conductors"] == [second]
    assert linked.refusals == []


def test_a_host_does_not_add_keys_unrequested(scene: Scene) -> None:
    """A key that was stolen once gives no way back after it was revoked."""
    other = SigningKey.new()
    claimed = {**scene.b.summary, "own": {**scene.b.summary["own"], other.key_id: other.public_text}}
    sealed = keys.sealed(scene.b.signer, CELL, reported("host-b", {}, keys=claimed))
    conductor_actors.conductor_message(sealed)
    assert [one.key_id for one in host_keys.list_keys("host-b")] == [scene.b.signer.key_id]


# -- enrolment


def test_a_host_is_enrolled_in_one_cell(scene: Scene) -> None:
    with pytest.raises(host_keys.Conflict):
        host_keys.enroll(system_context(), "host-a", "cell2")
    with pytest.raises(host_keys.NotFound):
        host_keys.enroll(system_context(), "host-c", "nowhere")
    CellMapping.objects.get(name=CELL)
    assert {one.host for one in host_keys.list_keys()} == {"host-a", "host-b"}


def test_a_token_counts_once_and_not_for_long(scene: Scene) -> None:
    context, key = system_context(), SigningKey.new().public_text
    late = host_keys.create_token(context, "host-c", CELL, seconds=-1.0)
    token = host_keys.create_token(context, "host-c", CELL)
    for wrong in (late, token[:-1], "", str(uuid4())):
        with pytest.raises(host_keys.NotAuthenticated):
            host_keys.redeem(context, wrong, key)
    assert host_keys.list_keys("host-c") == []
    enrolled = host_keys.redeem(context, token, key)
    assert (enrolled.host, enrolled.cell, set(enrolled.conductor_keys)) == ("host-c", CELL, set(STORE.conductor_keys()))
    with pytest.raises(host_keys.NotAuthenticated):
        host_keys.redeem(context, token, SigningKey.new().public_text)
    assert len(host_keys.list_keys("host-c")) == 1
