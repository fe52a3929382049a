"""Every place of every flow, there and back, one death at each: the action ends all the same, and nothing is left."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.campaign import Campaign
from tests.chaos.checker import unsettled, violations
from tests.chaos.people import COMPUTE, Person

ARMED = "armed"
WAIT_SECONDS = 90.0
MOMENTS_OF_A_HOST = ("before", "effect", "kept")


@dataclass(frozen=True)
class Scene:
    """How a flow is brought about: what a new server goes through first, the action, and the verb that may fail.

    `first` and `action` are keys of DEEDS; `commands` are the messages that hosts get from the flow.
    """

    first: tuple[str, ...]
    action: str
    verb: str = ""
    commands: tuple[str, ...] = ()


Deed = Callable[[Person, str], tuple[str, str, Any]]


def act(key: str, value: Any = None) -> Deed:
    def request(person: Person, server: str) -> tuple[str, str, Any]:
        given = value(person) if callable(value) else value
        return "POST", f"{COMPUTE}/servers/{server}/action", {key: given}

    return request


def _attach(person: Person, server: str) -> tuple[str, str, Any]:
    attachment = {"volumeAttachment": {"volumeId": person.volumes[0]}}
    return "POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", attachment


def _detach(person: Person, server: str) -> tuple[str, str, Any]:
    return "DELETE", f"{COMPUTE}/servers/{server}/os-volume_attachments/{person.volumes[0]}", None


def _plug(person: Person, server: str) -> tuple[str, str, Any]:
    return "POST", f"{COMPUTE}/servers/{server}/os-interface", {"interfaceAttachment": {}}


def _unplug(person: Person, server: str) -> tuple[str, str, Any]:
    _, body, _ = person.ask("GET", f"{COMPUTE}/servers/{server}/os-interface")
    port = body["interfaceAttachments"][0]["port_id"]
    return "DELETE", f"{COMPUTE}/servers/{server}/os-interface/{port}", None


def _delete(person: Person, server: str) -> tuple[str, str, Any]:
    return "DELETE", f"{COMPUTE}/servers/{server}", None


DEEDS: dict[str, Deed] = {
    "stop": act("os-stop"),
    "start": act("os-start"),
    "reboot": act("reboot", {"type": "SOFT"}),
    "hard reboot": act("reboot", {"type": "HARD"}),
    "pause": act("pause"),
    "unpause": act("unpause"),
    "suspend": act("suspend"),
    "resume": act("resume"),
    "rescue": act("rescue"),
    "unrescue": act("unrescue"),
    "rebuild": act("rebuild", lambda person: {"imageRef": person.image}),
    "password": act("changePassword", {"adminPass": "correct-horse-7"}),
    "image": act("createImage", {"name": "picture"}),
    "backup": act("createBackup", {"name": "backup", "backup_type": "daily", "rotation": 1}),
    "shelve": act("shelve"),
    "unshelve": act("unshelve"),
    "resize": act("resize", lambda person: {"flavorRef": person.flavors[-1]}),
    "confirm": act("confirmResize"),
    "revert": act("revertResize"),
    "migrate live": act("os-migrateLive", {"host": None, "block_migration": "auto"}),
    "crash dump": act("trigger_crash_dump"),
    "attach volume": _attach,
    "detach volume": _detach,
    "plug": _plug,
    "unplug": _unplug,
    "delete": _delete,
}
AS_ADMIN = {"migrate live"}

SCENES: dict[str, Scene] = {
    "build_instances": Scene((), ""),
    "build_in_cell": Scene((), "", "spawn", ("spawn_instance",)),
    "delete_instance": Scene((), "delete", "", ("destroy_instance",)),
    "stop_instance": Scene((), "stop", "power_off", ("power_off",)),
    "start_instance": Scene(("stop",), "start", "power_on", ("power_on",)),
    "reboot_instance": Scene((), "reboot", "reboot", ("reboot_instance",)),
    "hard_reboot_instance": Scene((), "hard reboot", "reboot"),
    "pause_instance": Scene((), "pause", "pause", ("pause_instance",)),
    "unpause_instance": Scene(("pause",), "unpause", "unpause", ("unpause_instance",)),
    "suspend_instance": Scene((), "suspend", "suspend", ("suspend_instance",)),
    "resume_instance": Scene(("suspend",), "resume", "resume", ("resume_instance",)),
    "rescue_instance": Scene((), "rescue", "rescue", ("rescue_instance",)),
    "unrescue_instance": Scene(("rescue",), "unrescue", "unrescue", ("unrescue_instance",)),
    "rebuild_instance": Scene((), "rebuild", "rebuild", ("rebuild_instance",)),
    "change_password": Scene((), "password", "set_admin_password", ("set_admin_password",)),
    "trigger_crash_dump": Scene((), "crash dump", "trigger_crash_dump", ("trigger_crash_dump",)),
    "create_image": Scene((), "image", "snapshot", ("snapshot_instance",)),
    "create_backup": Scene((), "backup", "snapshot"),
    "shelve_instance": Scene((), "shelve", "snapshot"),
    "offload_instance": Scene((), "shelve"),
    "unshelve_instance": Scene(("shelve",), "unshelve", "spawn"),
    "attach_volume": Scene((), "attach volume", "attach_volume", ("attach_volume",)),
    "detach_volume": Scene(("attach volume",), "detach volume", "detach_volume", ("detach_volume",)),
    "attach_interface": Scene((), "plug", "attach_interface", ("attach_interface",)),
    "detach_interface": Scene((), "unplug", "detach_interface", ("detach_interface",)),
    "resize_instance": Scene((), "resize", "migrate_in", ("migrate_out", "migrate_in")),
    "confirm_resize": Scene(("resize",), "confirm", "", ("confirm_migration",)),
    "revert_resize": Scene(("resize",), "revert", "", ("revert_migration",)),
    "live_migrate_instance": Scene(
        (), "migrate live", "live_migrate", ("prepare_live_migration", "live_migrate", "finish_live_migration")
    ),
}


@dataclass(frozen=True)
class Place:
    """One place to die at, in the scene of a flow."""

    flow: str
    name: str

    @property
    def is_undo(self) -> bool:
        return ".undo." in self.name


def places(match: str, sample: int, seed: int) -> list[Place]:
    """All places of all flows that have a scene, or a sample of them; those that `match` is found in."""
    from conductor.workflows.catalog import FLOWS, failpoints  # Django must be set up for this

    found = []
    for known in FLOWS:
        scene = SCENES.get(known.name)
        if scene is None:
            continue
        names = failpoints(known)
        names += failpoints(known, "undo") if scene.verb else []
        names += [f"host.{command}.{moment}" for command in scene.commands for moment in MOMENTS_OF_A_HOST]
        found += [Place(known.name, name) for name in names if re.search(match, name)]
    if sample:
        chosen = random.Random(seed).sample(range(len(found)), min(sample, len(found)))
        found = [found[index] for index in sorted(chosen)]
    return found


def walk(campaign: Campaign, found: Sequence[Place], tell: Callable[[str], None]) -> list[str]:
    """Die at each place; what is wrong, with the place after which it was seen."""
    wrong: list[str] = []
    not_reached: list[str] = []
    for number, place in enumerate(found, start=1):
        began = time.monotonic()
        was_reached, complaints = _die_at(campaign, place)
        tell(
            f"{number}/{len(found)} {place.name} {time.monotonic() - began:.1f} s"
            f"{'' if was_reached else ' (not reached)'}{' WRONG' if complaints else ''}"
        )
        not_reached += [] if was_reached else [place.name]
        wrong += [f"{place.name}: {line}" for line in complaints]
        if len(wrong) > 40:
            break
    tell(f"{len(found) - len(not_reached)} deaths; not reached: {', '.join(not_reached) or 'none'}")
    return wrong


def _die_at(campaign: Campaign, place: Place) -> tuple[bool, list[str]]:
    scene, person = SCENES[place.flow], campaign.people[0]
    armed = campaign.folder / ARMED
    faults = campaign.cloud.data_dir / "faults.json"
    is_build = not scene.action
    server = ""
    if not is_build:
        server = _launch(person)
        for deed in scene.first:
            _wait(person, server)
            _do(person, server, deed)
        _wait(person, server)
    if place.is_undo:
        faults.write_text(json.dumps({scene.verb: {"fail_times": 99}}))
    armed.write_text(place.name)
    if is_build:
        server = _launch(person)
    else:
        _do(person, server, scene.action)
    complaints = _await_rest(campaign)  # the dead come back at once, as a supervisor would have it
    was_reached = not armed.exists()
    armed.unlink(missing_ok=True)
    faults.unlink(missing_ok=True)
    complaints += violations(campaign.evidence)
    _do(person, server, "delete", may_fail=True)
    return was_reached, complaints + _await_rest(campaign)


def _launch(person: Person) -> str:
    server = {
        "name": "point",
        "imageRef": person.image,
        "flavorRef": person.flavors[0],
        "networks": [{"uuid": person.network}],
    }
    status, body, _ = person.ask("POST", f"{COMPUTE}/servers", {"server": server})
    assert status == 202, (status, body)
    return str(body["server"]["id"])


def _do(person: Person, server: str, deed: str, *, may_fail: bool = False) -> None:
    """One request, repeated while a web that was killed does not answer."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        method, path, body = DEEDS[deed](person, server)
        status, said, _ = person.ask(method, path, body, as_admin=deed in AS_ADMIN)
        if 200 <= status < 300 or may_fail:
            return
        assert status in (0, 409, 503), (deed, status, said)
        time.sleep(0.3)
    raise AssertionError(f"{deed} is refused: {said}")


def _wait(person: Person, server: str) -> None:
    """Until nothing is under way on the server, or it is gone."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        status, body, _ = person.ask("GET", f"{COMPUTE}/servers/{server}")
        if status == 404:
            return
        if status == 200:
            shown = body["server"]
            if shown["status"] != "BUILD" and shown["OS-EXT-STS:task_state"] is None:
                return
        time.sleep(0.2)


def _await_rest(campaign: Campaign) -> list[str]:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        campaign.revive()
        left = unsettled(campaign.evidence)
        if not left:
            return []
        time.sleep(0.2)
    return [f"never settles: {line}" for line in left]
