"""Authorization of messages: which sender may send which kind, about which subject. Checked before any handler runs.

A host may send messages about itself, about steps that were sent to it, and about guests that it has or that move to or
from it. A conductor may send messages about all subjects; a scheduler about its calls. A message without a valid
signature has no effect.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from conductor.core.identifiers import uuid_or_none
from conductor.rpc import envelope, keys
from conductor.rpc.envelope import CONDUCTOR, SCHEDULER, Envelope, Refused, Signer
from conductor.rpc.messages import to_compute

log = logging.getLogger(__name__)

HOST = "host"
NOTIFICATION = "conductor_notified"
TO_CONDUCTOR = "conductor_message"
TO_COMPUTE = "compute_message"
TO_SCHEDULER = "scheduler_message"
WINDOW_SECONDS = 300.0  # maximum difference of clocks, and maximum age of a message

CAUSES: Mapping[str, str] = {
    "unsigned": "there is no signed envelope",
    "sender": "this sender may not send this kind",
    "key": "the key is unknown, revoked or another sender's",
    "signature": "the signature is not valid",
    "age": f"it is older or newer than {WINDOW_SECONDS:.0f} seconds",
    "replay": "it was received before",
    "recipient": "it is addressed to another recipient",
    "cell": "the host belongs to another cell",
    "host": "it is about another host",
    "step": "the step was sent to another host, or belongs to another run",
    "guest": "the guest is on another host",
}


@dataclass(frozen=True)
class AuthenticatedMessage:
    """A message with an authenticated and authorized sender. `body` is its content."""

    envelope: Envelope
    body: dict[str, Any]


Check = Callable[[Envelope, dict[str, Any]], None]


@dataclass(frozen=True)
class MessageRule:
    """The required sender of a kind of message, the actor that receives it, and the checks of its subject."""

    sender: str  # CONDUCTOR, SCHEDULER or HOST
    actor: str
    checks: tuple[Check, ...] = ()


# -- subjects of messages


def _addressed_to_host(sealed: Envelope, body: dict[str, Any]) -> None:
    """Require that a command is for the host that it names."""
    if sealed.recipient != envelope.host_sender(str(body["body"]["host"])):
        raise sealed.refusal("recipient", "The command is for another host than the one that it is addressed to.")


def _own_cell_and_host(sealed: Envelope, body: dict[str, Any]) -> None:
    """Require that a host sends to the conductor of its cell, and about itself."""
    key = keys.authority().host_key(sealed.key_id)
    cell = str(body["cell"])
    if key is None or key.cell != cell or body["body"].get("cell", cell) != cell:
        raise sealed.refusal("cell", f"Host {sealed.host} is not enrolled in cell {cell[:64]}.")
    if sealed.recipient != f"{CONDUCTOR}.{cell}":
        raise sealed.refusal("recipient", "The message is for the conductor of another cell.")
    if body["body"]["host"] != sealed.host:
        raise sealed.refusal("host", f"Host {sealed.host} speaks of host {str(body['body']['host'])[:255]}.")


def _own_node(sealed: Envelope, body: dict[str, Any]) -> None:
    """Require that a host does not report its resources under the name of another host."""
    node = str(body["body"]["report"]["node"])
    if node != sealed.host and keys.authority().is_enrolled(node):
        raise sealed.refusal("host", f"Host {sealed.host} reports a node with the name of host {node[:255]}.")


def _own_step(sealed: Envelope, body: dict[str, Any]) -> None:
    """Require that the host answers a step that was sent to it, and for the step's run."""
    step_key, run_uuid = str(body["body"]["step_key"]), str(body["body"]["run_uuid"]).replace("-", "")
    for host, run in keys.authority().steps(body["cell"], step_key):
        if host not in ("", sealed.host) or run != run_uuid:
            raise sealed.refusal("step", f"Host {sealed.host} speaks of a step that was sent to {host or 'no host'}.")


def _own_guest(sealed: Envelope, body: dict[str, Any]) -> None:
    """Check a message about one guest."""
    _require_own(sealed, body["cell"], [str(body["body"]["instance_uuid"])])


def _own_pieces(sealed: Envelope, body: dict[str, Any]) -> None:
    """Remove the pieces about guests of other hosts."""
    pieces = body["body"]["pieces"]
    own = _require_own(sealed, body["cell"], [str(piece["instance_uuid"]) for piece in pieces])
    body["body"]["pieces"] = [piece for piece in pieces if str(piece["instance_uuid"]) in own]


def _own_counts(sealed: Envelope, body: dict[str, Any]) -> None:
    """Remove the figures of guests of other hosts."""
    guests = body["body"]["guests"]
    own = _require_own(sealed, body["cell"], guests)
    body["body"]["guests"] = {uuid: figures for uuid, figures in guests.items() if uuid in own}


def _require_own(sealed: Envelope, cell: str, texts: Iterable[str]) -> set[str]:
    """Return the guests that the host may report on. Raises Refused where all guests are at other hosts."""
    named = {text: uuid for text in texts if (uuid := uuid_or_none(text)) is not None}
    places = keys.authority().guest_places(cell, sealed.host, set(named.values()))
    if places.elsewhere:
        some = ", ".join(str(uuid) for uuid in sorted(places.elsewhere)[:3])
        refused = sealed.refusal("guest", f"Host {sealed.host} speaks of guests that are on other hosts: {some}.")
        if not places.own:
            raise refused
        report(refused)
    return {text for text, uuid in named.items() if uuid in places.own}


def _once(sealed: Envelope, body: dict[str, Any]) -> None:
    """Accept a message without an order only once, over all conductors of the cell."""
    digest = hashlib.sha256(f"{sealed.key_id} {sealed.nonce}".encode()).hexdigest()
    if not keys.authority().is_first(body["cell"], digest, 2 * WINDOW_SECONDS):
        raise sealed.refusal("replay", "The message was received by another process before.")


def _addressed_to_scheduler(sealed: Envelope, body: dict[str, Any]) -> None:
    """Require that a call is for the scheduler that it names."""
    if sealed.recipient != f"{SCHEDULER}.{body['body']['scheduler']}":
        raise sealed.refusal("recipient", "The call is for another scheduler than the one that it is addressed to.")


_COMMAND = MessageRule(CONDUCTOR, TO_COMPUTE, (_addressed_to_host,))


def _host_rule(*checks: Check) -> MessageRule:
    """Return the rule for a message from a host that is about the host itself."""
    return MessageRule(HOST, TO_CONDUCTOR, (_own_cell_and_host, *checks))


# Every kind of message. Unlisted kinds are never delivered.
KINDS: Mapping[str, MessageRule] = {
    NOTIFICATION: MessageRule(CONDUCTOR, NOTIFICATION),
    **dict.fromkeys(to_compute.names(), _COMMAND),
    "step_answered": _host_rule(_own_step),
    "step_progressed": _host_rule(_own_step, _once),
    "host_reported": _host_rule(_own_node),
    "consoles_offered": _host_rule(_once),
    "console_written": _host_rule(_own_guest),
    "consoles_written": _host_rule(_own_pieces),
    "guests_counted": _host_rule(_own_counts),
    "refusals_counted": _host_rule(_once),
    "select_destinations": MessageRule(CONDUCTOR, TO_SCHEDULER, (_addressed_to_scheduler,)),
    "destinations_selected": MessageRule(SCHEDULER, TO_CONDUCTOR),
    "scheduler_reported": MessageRule(SCHEDULER, TO_CONDUCTOR, (_once,)),
}
# Required sender of a kind that only a newer release knows, by the actor that received it.
_NEWER = {TO_CONDUCTOR: HOST, TO_COMPUTE: CONDUCTOR}


# -- verification


class UnknownKind(Refused):
    """A signed message of a kind that only a newer release knows."""


def opened(actor: str, wire: Any) -> AuthenticatedMessage:
    """Return the message in an envelope that `actor` received, after every check.

    The sender repeats messages that matter.

    Raises:
        Refused: a check failed.
        UnknownKind: this release does not know the kind.
        DatabaseError: a check cannot be made now.
    """
    sealed = envelope.read(wire)
    kind = KINDS.get(sealed.kind)
    _require_sender(actor, sealed, kind)
    _require_signature(sealed)
    _require_fresh(sealed)
    if kind is None:
        raise UnknownKind("key", f"Message {sealed.kind} is not known here.", sender=sealed.sender, kind=sealed.kind)
    try:
        body = envelope.content(sealed)
        if sealed.kind != NOTIFICATION and body["message"] != sealed.kind:
            raise sealed.refusal("signature", "The body is of another kind than its envelope says.")
        for check in kind.checks:
            check(sealed, body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise sealed.refusal("unsigned", f"The message's body is malformed ({type(error).__name__}).") from None
    return AuthenticatedMessage(sealed, body)


def require_own(signer: Signer, cell: str, sentence: Mapping[str, Any]) -> None:
    """Check an encoded message of a host of this process to a conductor of this process. It passes no broker.

    It is neither signed nor checked for its age or repetition. Its key must be valid, and the same rules apply. Raises
    Refused.
    """
    kind = str(sentence["message"])
    recipient = f"{CONDUCTOR}.{cell}"
    sealed = Envelope(kind, signer.sender, recipient, time.time(), "", signer.key_id, digest="", signature="", body="")
    _require_sender(TO_CONDUCTOR, sealed, KINDS.get(kind))
    if keys.public_key_of(sealed) is None:
        raise sealed.refusal("key", f"The key {sealed.key_id} is not one of {sealed.sender} that counts.")
    for check in KINDS[kind].checks:
        if check is not _once:
            check(sealed, {"cell": cell, **sentence})


def _require_sender(actor: str, sealed: Envelope, kind: MessageRule | None) -> None:
    sender = HOST if sealed.host else sealed.sender
    allowed = (kind.actor, kind.sender) if kind is not None else (actor, _NEWER.get(actor))
    if (actor, sender) != allowed:
        raise sealed.refusal("sender", f"{sealed.sender} may not send {sealed.kind} to {actor}.")
    if sealed.recipient.startswith(envelope.HOST_PREFIX) != (actor == TO_COMPUTE):
        raise sealed.refusal("recipient", f"{sealed.kind} is addressed to {sealed.recipient}.")


def _require_signature(sealed: Envelope) -> None:
    public = keys.public_key_of(sealed)
    if public is None:
        raise sealed.refusal("key", f"The key {sealed.key_id} is not one of {sealed.sender} that counts.")
    envelope.verify(sealed, public)


def _require_fresh(sealed: Envelope) -> None:
    late = time.time() - sealed.issued_at
    if not abs(late) <= WINDOW_SECONDS:
        raise sealed.refusal("age", f"The message was issued {late:.0f} seconds ago; are the clocks of both hosts set?")
    if not _nonces.add(f"{sealed.key_id} {sealed.nonce}"):
        raise sealed.refusal("replay", "The message was received before.")


class Nonces:
    """Nonces of received messages, stored while the messages could be replayed: two generations, each as old as the
    window.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget_all()

    def forget_all(self) -> None:
        with self._lock:
            self._now: set[str] = set()
            self._before: set[str] = set()
            self._since = time.monotonic()

    def add(self, nonce: str) -> bool:
        """Add a nonce. False where it is known already."""
        with self._lock:
            if time.monotonic() - self._since > 2 * WINDOW_SECONDS:
                self._now, self._before, self._since = set(), self._now, time.monotonic()
            if nonce in self._now or nonce in self._before:
                return False
            self._now.add(nonce)
            return True

    def discard(self, nonce: str) -> None:
        with self._lock:
            self._now.discard(nonce)
            self._before.discard(nonce)


_nonces = Nonces()


def forget_all() -> None:
    """Drop all nonces."""
    _nonces.forget_all()


def take_back(wire: Mapping[str, Any]) -> None:
    """Drop the nonce of a message that is queued again, so that it is accepted a second time."""
    _nonces.discard(f"{wire.get('key_id')} {wire.get('nonce')}")


# -- handling of refusals

_listeners: list[Callable[[Refused], None]] = []


def on_refusal(listener: Callable[[Refused], None]) -> None:
    """Register `listener`, to be called with each refused message, on the thread that received it."""
    if listener not in _listeners:
        _listeners.append(listener)


def report(refused: Refused) -> None:
    """Notify the listeners of a refusal; never raises."""
    for listener in _listeners:
        try:
            listener(refused)
        except Exception:
            log.exception("a refusal could not be counted")
