"""What somebody may do to a server right now: what people call it, what it does, and why it is not offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conductor.cell_db.models import Instance
from conductor.cells.lookup import CELL0
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.server_actions import ACTIONS
from conductor.core.states import VmState
from conductor.services import server_actions
from conductor.services.instance_queries import mapping_of

V = VmState
STATE_WORDS: Mapping[str, str] = {
    V.SOFT_DELETED: "deleted but recoverable",
    V.SHELVED_OFFLOADED: "shelved and offloaded",
    V.RESCUED: "in rescue",
    V.ERROR: "in error",
    V.RESIZED: "resized",
}


@dataclass(frozen=True, kw_only=True)
class ServerChoice:
    """One thing to do. `needs` are the fields that it asks for: image, password, name, reason, host.

    `why_not` is empty where it may be done now.
    """

    id: str
    title: str
    does: str
    needs: tuple[str, ...] = ()
    is_danger: bool = False
    why_not: str = ""

    @property
    def enabled(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A choice before anybody asks for it. `action` is a row of core.server_actions; "" for what has none.

    `is_patient`: it need not wait until what is under way has ended. `role` is the role that the caller needs.
    """

    title: str
    does: str
    action: str = ""
    vm_states: frozenset[V] = frozenset(V) - {V.DELETED}
    needs: tuple[str, ...] = ()
    is_danger: bool = False
    is_patient: bool = False
    role: str = "member"

    def states(self) -> frozenset[V]:
        """The vm_states in which the action is allowed."""
        return ACTIONS[self.action].vm_states if self.action else self.vm_states


KINDS: Mapping[str, _Kind] = {
    "confirm-resize": _Kind(
        action="confirmResize",
        title="Confirm resize",
        does="Keeps the new size and host, and removes what the old host kept. Reverting isn't possible afterwards.",
    ),
    "revert-resize": _Kind(
        action="revertResize",
        title="Revert resize",
        does="Returns the server to its old size and host. Changes on its own disks since the resize are lost.",
        is_danger=True,
    ),
    "start": _Kind(action="start", title="Start", does="The guest starts from its own disk."),
    "stop": _Kind(action="stop", title="Stop", does="The guest is asked to shut down, and ended when it does not."),
    "reboot": _Kind(action="reboot", title="Reboot", does="The guest is asked to reboot, and reset when it does not."),
    "hard-reboot": _Kind(
        action="reboot_hard",
        title="Hard reboot",
        does="The guest is ended at once, defined anew and started. What it has not written to its disk is lost.",
        is_danger=True,
    ),
    "pause": _Kind(action="pause", title="Pause", does="The guest's processors stop. Its memory stays on the host."),
    "unpause": _Kind(action="unpause", title="Unpause", does="The guest goes on where it was paused."),
    "suspend": _Kind(
        action="suspend", title="Suspend", does="The guest's memory is written to the host's disk and freed."
    ),
    "resume": _Kind(action="resume", title="Resume", does="The guest goes on where it was suspended."),
    "shelve": _Kind(
        action="shelve",
        title="Shelve",
        does="Shuts the server down and keeps its disk as an image, so that it needs no host. "
        "Its addresses and volumes stay.",
    ),
    "unshelve": _Kind(
        action="unshelve", title="Unshelve", does="Builds the shelved server again on a host with room and starts it."
    ),
    "shelve-offload": _Kind(
        action="shelveOffload",
        title="Offload",
        does="Removes the shelved server from its host now instead of later.",
        role="admin",
    ),
    "rescue": _Kind(
        action="rescue",
        title="Rescue",
        does="The guest starts from another image, with its own root disk as the second, so that it can be mended.",
        needs=("image", "password"),
    ),
    "unrescue": _Kind(
        action="unrescue", title="Leave rescue", does="The guest starts from its own disk again; the rescue disk goes."
    ),
    "rebuild": _Kind(
        action="rebuild",
        title="Rebuild",
        does="The guest's own disks are replaced by new ones made of an image. What is on them is lost; host, "
        "addresses and volumes stay.",
        needs=("image", "name"),
        is_danger=True,
    ),
    "change-password": _Kind(
        action="changePassword",
        title="Change password",
        does="The password of the guest's administrator is set from outside. It is kept nowhere.",
        needs=("password",),
    ),
    "migrate": _Kind(
        action="migrate",
        title="Migrate",
        does="Shuts the server down, moves it to another host and starts it there. "
        "Confirm or revert the move afterwards.",
        needs=("host",),
        role="manager",
    ),
    "live-migrate": _Kind(
        action="live-migration",
        title="Live migrate",
        does="Moves the running server to another host without shutting it down.",
        needs=("host",),
        role="manager",
    ),
    "crash-dump": _Kind(
        action="trigger_crash_dump",
        title="Crash dump",
        does="The guest is interrupted so that its kernel dumps its memory, if it was told to.",
        is_danger=True,
    ),
    "restore": _Kind(action="restore", title="Restore", does="The deletion is taken back, and the guest starts."),
    "destroy": _Kind(
        title="Delete for good",
        does="The guest and its disks are destroyed now. This cannot be undone.",
        vm_states=frozenset({V.SOFT_DELETED}),
        is_danger=True,
    ),
    "try-again": _Kind(
        title="Try again",
        does="The server goes back to the scheduler, under the same id and name, and is built on any host that fits.",
        vm_states=frozenset({V.ERROR}),
    ),
    "lock": _Kind(
        title="Lock",
        does="Nobody but administrators can change the server until it is unlocked.",
        needs=("reason",),
        is_patient=True,
    ),
    "unlock": _Kind(title="Unlock", does="Everybody in the project can change the server again.", is_patient=True),
}


def choices(context: RequestContext, instance_uuid: str) -> list[ServerChoice]:
    """All of KINDS for one server, in order; none for somebody who only reads, or while its cell is silent.

    Raises NotFound.
    """
    mapping = mapping_of(context, instance_uuid)
    if mapping.cell is None or not (context.is_admin or "member" in context.roles):
        return []
    cell, uuid = mapping.cell.name, mapping.instance_uuid

    def read(alias: str) -> tuple[Instance | None, frozenset[str]]:
        row = Instance.objects.using(alias).alive().filter(uuid=uuid).first()
        able = server_actions.capabilities(alias, row.host) if row is not None and row.host else frozenset()
        return row, able

    answers = scatter_gather(read, [cell]).answers
    if cell not in answers or answers[cell][0] is None:
        return []
    row, able = answers[cell]
    assert row is not None
    return [
        _choice(context, name, kind, row, able, is_in_cell0=cell == CELL0)
        for name, kind in KINDS.items()
        if may_use(context, name)
    ]


def may_use(context: RequestContext, name: str) -> bool:
    """Whether the caller has the role that the action needs, whatever the state of a server."""
    return context.is_admin or KINDS[name].role in context.roles


def choice(context: RequestContext, instance_uuid: str, name: str) -> ServerChoice | None:
    """One of them; None where there is no such thing, or nothing at all is offered."""
    return next((one for one in choices(context, instance_uuid) if one.id == name), None)


def _choice(
    context: RequestContext, name: str, kind: _Kind, row: Instance, able: frozenset[str], *, is_in_cell0: bool
) -> ServerChoice:
    why_not = _why_not_at_all(context, name, row) or _why_not(kind, row, able, is_in_cell0=is_in_cell0)
    return ServerChoice(
        id=name, title=kind.title, does=kind.does, needs=kind.needs, is_danger=kind.is_danger, why_not=why_not
    )


def _why_not_at_all(context: RequestContext, name: str, row: Instance) -> str:
    if name == "lock":
        return "It is locked already." if row.is_locked else ""
    if name == "unlock":
        if not row.is_locked:
            return "It is not locked."
        is_anothers = row.locked_by == "admin" and not context.is_admin
        return "An administrator has locked it." if is_anothers else ""
    if row.is_locked and not context.is_admin:
        return "It is locked."
    if name == "try-again" and (row.launched_at is not None or row.host):
        return "It has run before: rebuild it instead."
    return ""


def _why_not(kind: _Kind, row: Instance, able: frozenset[str], *, is_in_cell0: bool) -> str:
    action, states = ACTIONS.get(kind.action), kind.states()
    if V(row.vm_state) not in states:
        return f"Only while it is {_listed(states)}."
    interrupts = action.interrupts if action else frozenset()
    if row.task_state is not None and not kind.is_patient and row.task_state not in interrupts:
        return f"Something is under way: {row.task_state}."
    if action is None:
        return ""
    if action.must_have_launched and row.launched_at is None:
        return "It has never run."
    if action.needs_host and (not row.host or is_in_cell0):
        return "It is on no host."
    if action.capability and action.capability not in able:
        return "The driver of its host cannot do this."
    return ""


def _listed(states: Iterable[V]) -> str:
    words = [STATE_WORDS.get(state, str(state)) for state in V if state in set(states)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
