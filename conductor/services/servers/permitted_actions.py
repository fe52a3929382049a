"""Permitted actions on a server: title, effect, and the reason why one is refused now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from conductor.cell_db.models import Instance
from conductor.cells.lookup import CELL0
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.phrases import phrase
from conductor.core.server_actions import ACTIONS
from conductor.core.states import VmState
from conductor.services.servers import actions
from conductor.services.servers.queries import mapping_of

V = VmState
STATE_WORDS: Mapping[str, str] = {
    V.SOFT_DELETED: "deleted but recoverable",
    V.SHELVED_OFFLOADED: "shelved and offloaded",
    V.RESCUED: "in rescue",
    V.ERROR: "in error",
    V.RESIZED: "resized",
}


@dataclass(frozen=True, kw_only=True)
class AvailableServerAction:
    """One action. `needs` are its fields: image, password, name, reason, host.

    `why_not` is the reason for which it is refused now; empty where it is permitted.
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
class _ServerActionKind:
    """Definition of an action.

    Attributes:
        action: A row of core.server_actions; "" for an action without one.
        is_patient: It is permitted while a task is under way.
        role: The role that the caller needs.
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
        """Return the vm_states in which the action is allowed."""
        return ACTIONS[self.action].vm_states if self.action else self.vm_states


KINDS: Mapping[str, _ServerActionKind] = {
    "confirm-resize": _ServerActionKind(
        action="confirmResize",
        title="Confirm resize",
        does="Keeps the new size and host, and frees the resources on the old host. You can't revert afterwards.",
    ),
    "revert-resize": _ServerActionKind(
        action="revertResize",
        title="Revert resize",
        does="Returns the server to its old size and host. Changes to its local disks since the resize are lost.",
        is_danger=True,
    ),
    "start": _ServerActionKind(action="start", title="Start", does="Boots the server from its own disk."),
    "stop": _ServerActionKind(
        action="stop", title="Stop", does="Shuts down gracefully; powers the server off on timeout."
    ),
    "reboot": _ServerActionKind(
        action="reboot", title="Reboot", does="Reboots gracefully; resets the server on timeout."
    ),
    "hard-reboot": _ServerActionKind(
        action="reboot_hard",
        title="Hard reboot",
        does="Powers the server off and on again. Unsaved data is lost.",
        is_danger=True,
    ),
    "pause": _ServerActionKind(action="pause", title="Pause", does="Freezes the server. Its memory stays on the host."),
    "unpause": _ServerActionKind(action="unpause", title="Unpause", does="Resumes the paused server."),
    "suspend": _ServerActionKind(
        action="suspend", title="Suspend", does="Saves the server's memory to disk and frees the memory on the host."
    ),
    "resume": _ServerActionKind(
        action="resume", title="Resume", does="Resumes the suspended server from its saved memory."
    ),
    "shelve": _ServerActionKind(
        action="shelve",
        title="Shelve",
        does="Shuts the server down, saves its disk as an image and frees its host. Addresses and volumes stay.",
    ),
    "unshelve": _ServerActionKind(
        action="unshelve", title="Unshelve", does="Rebuilds the shelved server on an available host and starts it."
    ),
    "shelve-offload": _ServerActionKind(
        action="shelveOffload",
        title="Offload",
        does="Removes the shelved server from its host now instead of after the waiting period.",
        role="admin",
    ),
    "rescue": _ServerActionKind(
        action="rescue",
        title="Rescue",
        does=(
            "Boots the server from a rescue image, with its root disk attached as the second disk, so that "
            "you can repair it."
        ),
        needs=("image", "password"),
    ),
    "unrescue": _ServerActionKind(
        action="unrescue",
        title="Leave rescue",
        does=("Boots the server from its own disk again and removes the rescue disk."),
    ),
    "rebuild": _ServerActionKind(
        action="rebuild",
        title="Rebuild",
        does=(
            "Replaces the server's local disks with new ones made from an image. All data on them is lost. "
            "The host, addresses and volumes stay."
        ),
        needs=("image", "name"),
        is_danger=True,
    ),
    "change-password": _ServerActionKind(
        action="changePassword",
        title="Change password",
        does="Sets a new password for the administrator account in the server. The password isn't stored.",
        needs=("password",),
    ),
    "migrate": _ServerActionKind(
        action="migrate",
        title="Migrate",
        does="Shuts the server down, moves it to another host and starts it there. "
        "Confirm or revert the move afterwards.",
        needs=("host",),
        role="manager",
    ),
    "live-migrate": _ServerActionKind(
        action="live-migration",
        title="Live migrate",
        does="Moves the running server to another host without shutting it down.",
        needs=("host",),
        role="manager",
    ),
    "crash-dump": _ServerActionKind(
        action="trigger_crash_dump",
        title="Crash dump",
        does="Sends an interrupt that makes the kernel write a crash dump, if the operating system is set up for it.",
        is_danger=True,
    ),
    "restore": _ServerActionKind(action="restore", title="Restore", does="Restores the deleted server and starts it."),
    "destroy": _ServerActionKind(
        title="Delete permanently",
        does="Deletes the server and its disks permanently now.",
        vm_states=frozenset({V.SOFT_DELETED}),
        is_danger=True,
    ),
    "try-again": _ServerActionKind(
        title="Retry",
        does="Schedules the server again, with the same ID and name, and builds it on any eligible host.",
        vm_states=frozenset({V.ERROR}),
    ),
    "lock": _ServerActionKind(
        title="Lock",
        does="Only administrators can change the server until it is unlocked.",
        needs=("reason",),
        is_patient=True,
    ),
    "unlock": _ServerActionKind(title="Unlock", does="Project members can change the server again.", is_patient=True),
}


def choices(context: RequestContext, instance_uuid: str) -> list[AvailableServerAction]:
    """Return all of KINDS for one server, in order. Empty for a reader, and while its cell is down.

    Raises NotFound.
    """
    mapping = mapping_of(context, instance_uuid)
    if mapping.cell is None or not (context.is_admin or "member" in context.roles):
        return []
    cell, uuid = mapping.cell.name, mapping.instance_uuid

    def read(alias: str) -> tuple[Instance | None, frozenset[str]]:
        row = Instance.objects.using(alias).alive().filter(uuid=uuid).first()
        able = actions.capabilities(alias, row.host) if row is not None and row.host else frozenset()
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
    """Whether the caller has the role that the action needs, in any state of a server."""
    return context.is_admin or KINDS[name].role in context.roles


def choice(context: RequestContext, instance_uuid: str, name: str) -> AvailableServerAction | None:
    """Return one action. None for an unknown one, or if there are none at all."""
    return next((one for one in choices(context, instance_uuid) if one.id == name), None)


def _choice(
    context: RequestContext,
    name: str,
    kind: _ServerActionKind,
    row: Instance,
    able: frozenset[str],
    *,
    is_in_cell0: bool,
) -> AvailableServerAction:
    why_not = _why_not_at_all(context, name, row) or _why_not(kind, row, able, is_in_cell0=is_in_cell0)
    return AvailableServerAction(
        id=name, title=kind.title, does=kind.does, needs=kind.needs, is_danger=kind.is_danger, why_not=why_not
    )


def _why_not_at_all(context: RequestContext, name: str, row: Instance) -> str:
    if name == "lock":
        return phrase("The server is already locked.") if row.is_locked else ""
    if name == "unlock":
        if not row.is_locked:
            return phrase("The server isn't locked.")
        is_anothers = row.locked_by == "admin" and not context.is_admin
        return phrase("An administrator has locked the server.") if is_anothers else ""
    if row.is_locked and not context.is_admin:
        return phrase("The server is locked.")
    if name == "try-again" and (row.launched_at is not None or row.host):
        return phrase("The server has run before. Rebuild it instead.")
    return ""


def _why_not(kind: _ServerActionKind, row: Instance, able: frozenset[str], *, is_in_cell0: bool) -> str:
    action, states = ACTIONS.get(kind.action), kind.states()
    if V(row.vm_state) not in states:
        return phrase("Only available while the server is %(states)s.", states=_listed(states))
    interrupts = action.interrupts if action else frozenset()
    if row.task_state is not None and not kind.is_patient and row.task_state not in interrupts:
        return phrase("Another action is in progress: %(task)s.", task=row.task_state)
    if action is None:
        return ""
    if action.must_have_launched and row.launched_at is None:
        return phrase("The server has never run.")
    if action.needs_host and (not row.host or is_in_cell0):
        return phrase("The server has no host.")
    if action.capability and action.capability not in able:
        return phrase("The compute driver of the server does not support this action.")
    return ""


def _listed(states: Iterable[V]) -> str:
    *first, last = (phrase(STATE_WORDS.get(state, str(state))) for state in V if state in set(states))
    if not first:
        return last
    listed = reduce(lambda some, word: phrase("%(some)s, %(word)s", some=some, word=word), first)
    return phrase("%(some)s or %(word)s", some=listed, word=last)
