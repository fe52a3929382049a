"""Every place of every flow, forward and in compensation, with one kill at each: the action ends, and nothing is
left.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from tests.chaos.campaign import Campaign
from tests.chaos.checker import FAILURE, unsettled, violations
from tests.chaos.people import COMPUTE
from tests.chaos.scenes import AS_ADMIN, AT_ONCE, OPERATIONS, REMEDIES, SCENES, WAITED_FOR
from tests.chaos.stage import WAIT_SECONDS, Scene, Stage, insist
from tests.waiting import Stopwatch, take_time, wait_until

ARMED = "armed"
LOST = ".lost"
SCHEDULER_LANE = "Scheduler"
SCHEDULER_PLACES = ["scheduler.taken", "scheduler.decided", "scheduler.replied"]
MOMENTS_OF_A_HOST = ("before", "effect", "kept")
MOST_COMPLAINTS = 40
NOT_FOUND = 404
MOST_PATIENCE = 4  # times the default, while progress continues


@dataclass(frozen=True)
class CrashPoint:
    """One place to die at, in a scene."""

    scene: str
    name: str

    @property
    def is_undo(self) -> bool:
        return ".undo." in self.name

    @property
    def label(self) -> str:
        """The name, with what is special about the scene."""
        _, _, special = self.scene.partition(", ")
        return f"{self.name} ({special})" if special else self.name


def places(match: str, sample: int, seed: int, *, with_schedulers: bool = True) -> list[CrashPoint]:
    """Return all places of all flows that have a scene, or a sample of them; only those that contain `match`.

    Those of a scheduler that is called are in the scenes that select a host, `with_schedulers`.
    """
    from conductor.workflows.catalog import FLOWS, failpoints  # Django must be set up for this

    flows = {known.name: known for known in FLOWS}
    found = []
    for title, scene in SCENES.items():
        known = flows[title.partition(",")[0]]
        names = failpoints(known)
        names += failpoints(known, "undo") if scene.turns_back else []
        names += scene.accepting
        names += [f"host.{command}.{moment}" for command in scene.commands for moment in MOMENTS_OF_A_HOST]
        if with_schedulers and any(step.lane == SCHEDULER_LANE for step in known.steps):
            names += SCHEDULER_PLACES
        names = [name for name in names if not (scene.never and re.search(scene.never, name))]
        found += [place for place in (CrashPoint(title, name) for name in names) if re.search(match, place.label)]
    if sample:
        chosen = random.Random(seed).sample(range(len(found)), min(sample, len(found)))
        found = [found[index] for index in sorted(chosen)]
    return found


def walk(campaign: Campaign, found: Sequence[CrashPoint], report: Callable[[str], None]) -> list[str]:
    """Kill at each place; yield each violation with the place after which it was found."""
    wrong: list[str] = []
    not_reached: list[str] = []
    for number, place in enumerate(found, start=1):
        watch = Stopwatch()
        was_reached, complaints = _die_at(campaign, place)
        if not (was_reached or complaints):
            complaints = ["no process died: the scene does not reach this place"]
        report(
            f"{number}/{len(found)} {place.label} {watch.seconds:.1f} s"
            f"{'' if was_reached else ' (not reached)'}{' WRONG' if complaints else ''}"
        )
        not_reached += [] if was_reached else [place.label]
        wrong += [f"{place.label}: {line}" for line in complaints]
        if len(wrong) > MOST_COMPLAINTS:
            break
    report(f"{len(found) - len(not_reached)} deaths; not reached: {', '.join(not_reached) or 'none'}")
    return wrong


def remove_servers(campaign: Campaign) -> list[str]:
    """Delete all servers for good, so that scenes find free volumes and an empty cloud; return what does not end."""
    person = campaign.people[0]

    def delete(path: str) -> tuple[int, Any, str]:
        answer = person.ask("POST", path, {"forceDelete": None}, as_admin=True)
        return (204, None, "") if answer[0] == NOT_FOUND else answer

    _, body, _ = insist(partial(person.ask, "GET", f"{COMPUTE}/servers?all_tenants=1", as_admin=True))
    for server in body["servers"]:
        insist(partial(delete, f"{COMPUTE}/servers/{server['id']}/action"))
    return campaign.settle()


def _die_at(campaign: Campaign, place: CrashPoint) -> tuple[bool, list[str]]:
    """Play the scene once; a scene that cannot be played is wrong like any other, and the next one begins anew."""
    scene, stage = SCENES[place.scene], Stage(campaign, campaign.people[0])
    armed = campaign.folder / ARMED
    try:
        complaints = _play(stage, scene, place)
        was_reached = not armed.exists()
    except AssertionError as error:
        complaints, was_reached = [str(error)], False
    armed.unlink(missing_ok=True)
    _spoil(campaign, {})
    _find(stage, scene)
    if complaints:
        _repair(stage, scene)
        complaints += _failed_runs(stage)
    return was_reached, complaints + _end(stage, is_checked=not complaints)


def _repair(stage: Stage, scene: Scene) -> None:
    """Have the cloud as it was before the scene, wherever that broke off."""
    for operation in (*scene.before, *scene.first):
        if operation in REMEDIES:
            with suppress(AssertionError):
                _do(stage, REMEDIES[operation])


def _play(stage: Stage, scene: Scene, place: CrashPoint) -> list[str]:
    _set(stage, scene)
    if place.is_undo:
        _spoil(stage.campaign, {scene.verb: {"fail_times": scene.fail_times}} if scene.verb else {})
        _lose(stage, scene)
    (stage.campaign.folder / ARMED).write_text(place.name)
    if scene.action:
        _do(stage, scene.action, turns_back=place.is_undo)
    else:
        _launch(stage, scene)
    for operation in scene.meanwhile:
        _await_death(stage, place)
        _do(stage, operation)
    if scene.last:
        _wait(stage)
        for operation in scene.last:
            _do(stage, operation)
    if not scene.tidy:
        return _await_right(stage) + _not_found_again(stage)
    wrong = _await_rest(stage) if place.is_undo else _await_right(stage)
    _find(stage, scene)
    for operation in scene.tidy:
        _do(stage, operation)
    return wrong + _await_right(stage) + _not_found_again(stage)


def _await_death(stage: Stage, place: CrashPoint) -> None:
    armed = stage.campaign.folder / ARMED
    wait_until(f"{place.label} is reached", lambda: not armed.exists(), WAIT_SECONDS, pause=0.05)


def _not_found_again(stage: Stage) -> list[str]:
    """Return the requests that were accepted for the server, and that it has no action of."""
    if not stage.accepted:
        return []
    path = f"{COMPUTE}/servers/{stage.server}/os-instance-actions"
    _, body, _ = insist(partial(stage.person.ask, "GET", path, as_admin=True))
    found = {action["request_id"] for action in body["instanceActions"]}
    return [f"{one} was accepted, and the server has no action of it" for one in stage.accepted if one not in found]


def _set(stage: Stage, scene: Scene) -> None:
    """Prepare everything that must be so before the action."""
    _spoil(stage.campaign, scene.faults)
    for operation in scene.before:
        _do(stage, operation)
    if not scene.action:
        return
    if not scene.is_about_volumes:
        _launch(stage, scene)
    for operation in scene.first:
        _wait(stage)
        _do(stage, operation)
    if scene.action not in AT_ONCE:
        _wait(stage)


def _lose(stage: Stage, scene: Scene) -> None:
    """Remove the data that the flow needs."""
    if scene.lost is not None:
        data = stage.campaign.cloud.data_dir / scene.lost(stage.person)
        data.rename(data.with_suffix(LOST))


def _find(stage: Stage, scene: Scene) -> None:
    """Put the lost data back."""
    if scene.lost is not None:
        data = stage.campaign.cloud.data_dir / scene.lost(stage.person)
        with suppress(FileNotFoundError):
            data.with_suffix(LOST).rename(data)


def _spoil(campaign: Campaign, rules: Any) -> None:
    (campaign.cloud.data_dir / "faults.json").write_text(json.dumps(rules))


def _end(stage: Stage, *, is_checked: bool) -> list[str]:
    """Delete the server, so that the next scene finds an empty cloud."""
    if stage.server:
        with suppress(AssertionError):
            _do(stage, "delete", may_fail=True)
    left = _await_rest(stage)
    return left if is_checked else []


def _launch(stage: Stage, scene: Scene) -> None:
    person = stage.person
    server = {
        "name": "point",
        "imageRef": person.image,
        "flavorRef": person.flavors[0],
        "networks": [{"uuid": person.network}],
        **scene.launch(person),
    }
    ask = partial(person.ask, "POST", f"{COMPUTE}/servers", {"server": server}, key=f"point-{uuid4()}")
    _, body, request_id = insist(ask)
    stage.server = str(body["server"]["id"])
    stage.accepted.append(request_id)


def _do(stage: Stage, operation: str, *, may_fail: bool = False, turns_back: bool = False) -> None:
    """Send one request, repeated while a killed web process does not answer; or do whatever else the action is.

    Where its flow turns back, and the answer waits for that, the answer is a failure: the checker looks at what is
    true then.
    """
    request = OPERATIONS[operation](stage)
    if request is None:
        return
    method, path, body = request

    def ask() -> tuple[int, Any, str]:
        answer = stage.person.ask(method, path, body, as_admin=operation in AS_ADMIN)
        stage.campaign.revive()
        if turns_back and operation in WAITED_FOR and answer[0] == FAILURE:
            stage.person.note(WAITED_FOR[operation], stage.server, *answer)
            return 204, None, ""
        return (204, None, "") if may_fail and answer[0] else answer

    try:
        _, _, request_id = insist(ask)
    except AssertionError as error:
        raise AssertionError(f"{operation} {error}") from None
    if request_id and stage.server and path.startswith(f"{COMPUTE}/servers/{stage.server}/"):
        stage.accepted.append(request_id)


def _wait(stage: Stage) -> None:
    """Wait until nothing is in progress on the server, or it is deleted or unknown; without a server, for nothing."""
    if not stage.server:
        _await_rest(stage)
        return
    watch = Stopwatch()
    while watch.seconds < WAIT_SECONDS:
        stage.campaign.revive()
        status, shown = stage.shown()
        if status == 404 or shown.get("status") == "UNKNOWN":
            return
        if status == 200 and shown["status"] != "BUILD" and shown["OS-EXT-STS:task_state"] is None:
            stage.home = stage.home or shown["OS-EXT-SRV-ATTR:host"] or ""
            return
        take_time(0.2)


def _await_rest(stage: Stage) -> list[str]:
    """Restart dead processes at once, like a supervisor; return the work in progress after long enough.

    Copying a gigabyte on a slow machine is not a hang: the wait restarts when a file or a row changes.
    """
    watch, still = Stopwatch(), Stopwatch()
    seen, left = "", ["not checked yet"]
    while still.seconds < WAIT_SECONDS and watch.seconds < MOST_PATIENCE * WAIT_SECONDS:
        stage.campaign.revive()
        left = unsettled(stage.campaign.evidence)
        if not left:
            return []
        moved = f"{left} {_newest_data(stage.campaign)}"
        if moved != seen:
            still, seen = Stopwatch(), moved
        take_time(0.2)
    return [f"never settles: {line}" for line in left]


def _newest_data(campaign: Campaign) -> float:
    """Return when a file of a volume, snapshot or image was written last."""
    newest = 0.0
    for kind in ("volumes", "snapshots", "images"):
        for path in (campaign.cloud.data_dir / kind).glob("*"):
            with suppress(FileNotFoundError):  # gone meanwhile
                newest = max(newest, path.stat().st_mtime)
    return newest


def _await_right(stage: Stage) -> list[str]:
    """Wait for rest without errors. A host that has come back still receives its deferred commands."""
    is_back = stage.home and stage.home in stage.campaign.were_dead
    watch, limit = Stopwatch(), WAIT_SECONDS if is_back else 0.0
    while True:
        wrong = _await_rest(stage) or violations(stage.campaign.evidence)
        if not wrong or watch.seconds >= limit:
            stage.campaign.were_dead.clear()
            return wrong
        take_time(0.5)


def _failed_runs(stage: Stage) -> list[str]:
    """Return why the server's workflows failed, by their rows."""
    if not stage.server:
        return []
    query = (
        "SELECT flow, state, error FROM journal_workflowrun WHERE instance_uuid = "
        f"'{stage.server}' AND error IS NOT NULL ORDER BY id"
    )
    rows = stage.campaign.evidence.everywhere(query)
    return [f"{name}: {row['flow']} is {row['state']}: {row['error']}" for name, row in rows]
