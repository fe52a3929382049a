"""Scenes that start each flow: the steps before, the action, and the steps after the server is at rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.chaos.people import COMPUTE, VOLUME, Person
from tests.chaos.stage import WAIT_SECONDS, Request, Scene, Stage, StageAction, insist
from tests.waiting import wait_until

HOUR = 3600
# Scenes with deletions that can be undone need this, and the others get along with it.
VARIABLES = {"NOVELLA_RECLAIM_SECONDS": str(HOUR)}
# The places of a cloud in which deletions cannot be undone.
WITHOUT_RECLAIM = r"^(?!soft_delete|restore)"
SLOW_MOVE = {"live_migrate": {"delay_seconds": 10.0}}


def act(key: str, value: Any = None) -> StageAction:
    def request(stage: Stage) -> Request:
        given = value(stage.person) if callable(value) else value
        return "POST", f"{COMPUTE}/servers/{stage.server}/action", {key: given}

    return request


def _attach(stage: Stage) -> Request:
    attachment = {"volumeAttachment": {"volumeId": stage.person.volumes[0]}}
    return "POST", f"{COMPUTE}/servers/{stage.server}/os-volume_attachments", attachment


def _detach(stage: Stage) -> Request:
    return "DELETE", f"{COMPUTE}/servers/{stage.server}/os-volume_attachments/{stage.person.volumes[0]}", None


def _swap(stage: Stage) -> Request:
    first, second, *_ = stage.person.volumes
    attachment = {"volumeAttachment": {"volumeId": second}}
    return "PUT", f"{COMPUTE}/servers/{stage.server}/os-volume_attachments/{first}", attachment


def _notify_of_extension(stage: Stage) -> Request:
    fields = {"name": "volume-extended", "server_uuid": stage.server, "tag": stage.person.volumes[0]}
    return "POST", f"{COMPUTE}/os-server-external-events", {"events": [fields]}


def _plug(stage: Stage) -> Request:
    return "POST", f"{COMPUTE}/servers/{stage.server}/os-interface", {"interfaceAttachment": {}}


def _unplug(stage: Stage) -> Request:
    _, body, _ = insist(lambda: stage.person.ask("GET", f"{COMPUTE}/servers/{stage.server}/os-interface"))
    port = body["interfaceAttachments"][0]["port_id"]
    return "DELETE", f"{COMPUTE}/servers/{stage.server}/os-interface/{port}", None


def _soft_delete(stage: Stage) -> Request:
    return "DELETE", f"{COMPUTE}/servers/{stage.server}", None


def _try_again(stage: Stage) -> Request:
    return "POST", f"/api/servers/{stage.server}/try-again", None


def _drain(stage: Stage) -> Request:
    return "POST", f"/api/hosts/{stage.home}/drain", {}


def _open(stage: Stage) -> Request:
    return "POST", f"/api/hosts/{stage.home}/open", {}


def _close(stage: Stage) -> None:
    stage.change_services({"status": "disabled"}, stage.home)


def _canary(stage: Stage) -> Request:
    return "POST", f"/api/hosts/{stage.home}/canary", {}


def _abort(stage: Stage) -> Request:
    return "DELETE", f"{COMPUTE}/servers/{stage.server}/migrations/{_moving(stage)}", None


def _force(stage: Stage) -> Request:
    body = {"force_complete": None}
    return "POST", f"{COMPUTE}/servers/{stage.server}/migrations/{_moving(stage)}/action", body


def _throttle(stage: Stage) -> Request:
    """After its source has reported the migration: an earlier action is refused."""
    path = f"/api/workflows?flow=live_migrate_instance&instance_uuid={stage.server}"
    body: Any = None
    _moving(stage)

    def look() -> str:
        nonlocal body
        status, body, _ = stage.person.ask("GET", path, as_admin=True)
        (run,) = body["workflows"] if status == 200 else [None]
        about = f"/api/workflows/{run['uuid']}/migration" if run else ""
        status, body, _ = stage.person.ask("GET", about, as_admin=True) if run else (status, body, "")
        is_ready = status == 200 and not any(
            one["why_not"] for one in body["migration"]["actions"] if one["id"] == "throttle"
        )
        return about if is_ready else ""

    about = wait_until(
        f"the move of {stage.server} takes an order", look, WAIT_SECONDS, pause=0.1, details=lambda: body
    )
    return "POST", f"{about}/throttle", {"percent": 40}


def _moving(stage: Stage) -> int:
    """Return the migration of the server, once its guest moves."""
    body: Any = None

    def look() -> list[Any]:
        nonlocal body
        path = f"{COMPUTE}/servers/{stage.server}/migrations"
        status, body, _ = stage.person.ask("GET", path, as_admin=True)
        return [row["id"] for row in body["migrations"] if row["status"] == "running"] if status == 200 else []

    moving = wait_until(f"the guest of {stage.server} moves", look, WAIT_SECONDS, pause=0.1, details=lambda: body)
    return int(moving[0])


def _storage(stage: Stage, path: str, body: Mapping[str, Any]) -> Any:
    """Return the only member of the volume service's response."""

    def ask() -> tuple[int, Any, str]:
        answer = stage.person.ask("POST", f"{VOLUME}/{stage.person.project}/{path}", body)
        stage.campaign.revive()
        return answer

    (made,) = insist(ask)[1].values()
    return made


def _volume_of_image(stage: Stage) -> None:
    volume = {"name": "point", "size": 1, "imageRef": stage.person.image}
    stage.made["volumes"] = _storage(stage, "volumes", {"volume": volume})["id"]


def _keep(stage: Stage, kind: str) -> None:
    requested = {kind: {"name": "point", "volume_id": stage.volume}}
    stage.made[f"{kind}s"] = _storage(stage, f"{kind}s", requested)["id"]


def _restore(stage: Stage) -> Request:
    path = f"{VOLUME}/{stage.person.project}/backups/{stage.made['backups']}/restore"
    return "POST", path, {"restore": {"volume_id": stage.volume}}


def _act(requested: Callable[[Stage], Mapping[str, Any]]) -> StageAction:
    return lambda stage: ("POST", f"{VOLUME}/{stage.person.project}/volumes/{stage.volume}/action", requested(stage))


def _upload(stage: Stage) -> None:
    requested = {"os-volume_upload_image": {"image_name": "point", "disk_format": "raw", "container_format": "bare"}}
    stage.made["image"] = _storage(stage, f"volumes/{stage.volume}/action", requested)["image_id"]


def _away(kind: str) -> StageAction:
    return lambda stage: ("DELETE", f"{VOLUME}/{stage.person.project}/{kind}/{stage.made[kind]}", None)


def _snapshots_away(stage: Stage) -> None:
    """Delete all snapshots of the user: a request that was repeated after a crash has created two of each."""
    path = f"{VOLUME}/{stage.person.project}/snapshots"

    def ask() -> tuple[int, Any, str]:
        stage.campaign.revive()
        status, body, request_id = stage.person.ask("GET", path)
        left = body["snapshots"] if status == 200 else []
        for snapshot in left:
            stage.person.ask("DELETE", f"{path}/{snapshot['id']}")
        return 409 if left else status, body, request_id

    insist(ask)


def _image_away(stage: Stage) -> Request:
    return "DELETE", f"/image/v2/images/{stage.made['image']}", None


def _host_dies(stage: Stage) -> None:
    """Kill the host for good, and mark it as dead like its operator."""
    cloud = stage.campaign.cloud
    stage.campaign.stay_dead.add(stage.home)
    cloud.kill("host", cloud.of("host").index(stage.member))
    stage.change_services({"forced_down": True}, stage.home)


def _host_is_back(stage: Stage) -> None:
    stage.campaign.stay_dead.discard(stage.home)
    stage.campaign.revive()
    stage.change_services({"forced_down": False}, stage.home, not_yet=400)  # it must show first that it is clean


def _cell_goes_down(stage: Stage) -> None:
    """Make a cell unreachable: its database refuses and ends connections."""
    name = f"novella_{stage.cell}"
    _psql(stage, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    _psql(stage, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def _cell_is_back(stage: Stage) -> None:
    _psql(stage, f"ALTER DATABASE novella_{stage.cell} ALLOW_CONNECTIONS true")


def _psql(stage: Stage, statement: str) -> None:
    assert stage.campaign.cloud.database is not None
    stage.campaign.cloud.database.psql(statement)


def _hosts_close(stage: Stage) -> None:
    stage.change_services({"status": "disabled"})


def _hosts_open(stage: Stage) -> None:
    stage.change_services({"status": "enabled"})


OPERATIONS: dict[str, StageAction] = {
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
    "image": act("createImage", {"name": "image-1"}),
    "backup": act("createBackup", {"name": "backup", "backup_type": "daily", "rotation": 1}),
    "shelve": act("shelve"),
    "unshelve": act("unshelve"),
    "resize": act("resize", lambda person: {"flavorRef": person.flavors[-1]}),
    "confirm": act("confirmResize"),
    "revert": act("revertResize"),
    "migrate": act("migrate"),
    "migrate live": act("os-migrateLive", {"host": None, "block_migration": "auto"}),
    "abort move": _abort,
    "force move": _force,
    "throttle move": _throttle,
    "evacuate": act("evacuate", {}),
    "crash dump": act("trigger_crash_dump"),
    "attach volume": _attach,
    "detach volume": _detach,
    "extend volume": _notify_of_extension,
    "swap volume": _swap,
    "plug": _plug,
    "unplug": _unplug,
    "delete": act("forceDelete"),  # for good, also where a deletion can be undone
    "soft delete": _soft_delete,
    "restore": act("restore"),
    "try again": _try_again,
    "drain": _drain,
    "open host": _open,
    "close host": _close,
    "canary": _canary,
    "volume of image": _volume_of_image,
    "snapshot": lambda stage: _keep(stage, "snapshot"),
    "go back": _act(lambda stage: {"revert": {"snapshot_id": stage.made["snapshots"]}}),
    "reimage": _act(lambda stage: {"os-reimage": {"image_id": stage.person.image}}),
    "upload": _upload,
    "back up": lambda stage: _keep(stage, "backup"),
    "bring back": _restore,
    "volume away": _away("volumes"),
    "snapshot away": _away("snapshots"),
    "snapshots away": _snapshots_away,
    "backup away": _away("backups"),
    "image away": _image_away,
    "host dies": _host_dies,
    "host is back": _host_is_back,
    "cell stops responding": _cell_goes_down,
    "cell is back": _cell_is_back,
    "hosts close": _hosts_close,
    "hosts open": _hosts_open,
}
AS_ADMIN = {
    *("extend volume", "swap volume", "migrate", "migrate live", "abort move", "force move", "throttle move"),
    *("evacuate", "drain", "open host", "canary"),
}
# The answer after the end of the workflow, by its name among the answers.
WAITED_FOR = {"plug": "attach_interface"}
# Requests during the action before.
AT_ONCE = {"abort move", "force move", "throttle move"}
# How the cloud gets out of what these actions did to it, when a scene breaks off.
REMEDIES = {"host dies": "host is back", "cell stops responding": "cell is back", "hosts close": "hosts open"}


def _from_volume(person: Person) -> Mapping[str, Any]:
    device = {
        "boot_index": 0,
        "uuid": person.image,
        "source_type": "image",
        "destination_type": "volume",
        "volume_size": 1,
        "delete_on_termination": True,
    }
    return {"imageRef": "", "block_device_mapping_v2": [device]}


def _from_one_of_two_volumes(person: Person) -> Mapping[str, Any]:
    """Return the body of a launch from two volumes, of which the second exists already."""
    requested = _from_volume(person)
    second = {
        "boot_index": -1,
        "uuid": person.volumes[1],
        "source_type": "volume",
        "destination_type": "volume",
        "delete_on_termination": False,
    }
    return {**requested, "block_device_mapping_v2": [*requested["block_device_mapping_v2"], second]}


def _image_data(person: Person) -> str:
    return f"images/{person.image}"


def _volume_data(person: Person) -> str:
    return f"volumes/{person.volumes[1]}.raw"


# By flow, or by flow and what is special about it after a comma.
SAME_IMAGE = r"^scheduler\."  # a rebuild calls no scheduler for the image that the server has
SCENES: dict[str, Scene] = {
    "build_instances": Scene((), "", accepting=("accept.create.committed",)),
    "build_in_cell": Scene((), "", "spawn", ("check_build", "spawn_instance")),
    "build_from_volumes": Scene((), "", "spawn", launch=_from_volume),
    "try_again": Scene(("hosts open",), "try again", before=("hosts close",)),
    "delete_instance": Scene(
        (),
        "delete",
        "",
        ("destroy_instance",),
        never=r"ForgetAtSource\.(answered|after)",  # without an unconfirmed move nothing is sent
    ),
    "delete_instance, its host is down": Scene(
        ("host dies",),
        "delete",
        "",
        ("destroy_instance",),
        last=("host is back",),
        never=r"(ForgetAtSource|DestroyOnHost)\.(answered|after)",  # an unresponsive host sends no answer
    ),
    "delete_instance, its move is unconfirmed": Scene(("migrate",), "delete", "", ("confirm_migration",)),
    "delete_when_cell_is_back": Scene(("cell stops responding",), "delete", last=("cell is back",)),
    "soft_delete_instance": Scene((), "soft delete"),
    "restore_instance": Scene(("soft delete",), "restore", "power_on"),
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
    "rebuild_instance": Scene((), "rebuild", "rebuild", ("rebuild_instance",), never=SAME_IMAGE),
    "rebuild_root_volume": Scene((), "rebuild", lost=_image_data, launch=_from_volume, never=SAME_IMAGE),
    "change_password": Scene((), "password", "set_admin_password", ("set_admin_password",)),
    "trigger_crash_dump": Scene((), "crash dump", "trigger_crash_dump", ("trigger_crash_dump",)),
    "create_image": Scene((), "image", "snapshot", ("snapshot_instance",)),
    "create_image_of_volumes": Scene(
        (), "image", lost=_volume_data, tidy=("snapshots away",), launch=_from_one_of_two_volumes
    ),
    "create_image_of_volumes, its server is deleted": Scene(
        (), "image", meanwhile=("delete",), tidy=("snapshots away",), launch=_from_one_of_two_volumes
    ),
    "create_backup": Scene((), "backup", "snapshot"),
    "shelve_instance": Scene((), "shelve", "snapshot"),
    "shelve_with_root_volume": Scene((), "shelve", "power_off", launch=_from_volume),
    "offload_instance": Scene((), "shelve"),
    "unshelve_instance": Scene(("shelve",), "unshelve", "spawn"),
    "attach_volume": Scene((), "attach volume", "attach_volume", ("attach_volume",)),
    "detach_volume": Scene(("attach volume",), "detach volume", "detach_volume", ("detach_volume",)),
    "extend_volume": Scene(("attach volume",), "extend volume", "attach_volume"),
    "swap_volume": Scene(("attach volume",), "swap volume", "swap_volume", ("swap_volume",), fail_times=1),
    "attach_interface": Scene(
        (), "plug", "attach_interface", ("attach_interface",), accepting=("accept.attach_interface.locked",)
    ),
    "detach_interface": Scene((), "unplug", "detach_interface", ("detach_interface",)),
    "resize_instance": Scene((), "resize", "migrate_in", ("migrate_out", "migrate_in")),
    "confirm_resize": Scene(("resize",), "confirm", "", ("confirm_migration",)),
    # By a migration, as a resize may find that its own host is the best.
    "revert_resize": Scene(("migrate",), "revert", "", ("revert_migration",)),
    "evacuate_instance": Scene(("host dies",), "evacuate", "spawn", last=("host is back",)),
    "live_migrate_instance": Scene(
        (), "migrate live", "live_migrate", ("prepare_live_migration", "live_migrate", "finish_live_migration")
    ),
    "abort_live_migration": Scene(
        ("migrate live",), "abort move", commands=("abort_live_migration",), faults=SLOW_MOVE
    ),
    "force_live_migration": Scene(
        ("migrate live",), "force move", commands=("force_live_migration",), faults=SLOW_MOVE
    ),
    "steer_live_migration": Scene(
        ("migrate live",), "throttle move", commands=("steer_live_migration",), faults=SLOW_MOVE
    ),
    "drain_host": Scene((), "drain", last=("open host",)),
    "try_host": Scene(("close host",), "canary", last=("open host",)),
    "create_volume": Scene((), "volume of image", lost=_image_data, tidy=("volume away",), is_about_volumes=True),
    "create_snapshot": Scene((), "snapshot", lost=_volume_data, tidy=("snapshot away",), is_about_volumes=True),
    "revert_volume": Scene(("snapshot",), "go back", tidy=("snapshot away",), is_about_volumes=True),
    "reimage_volume": Scene((), "reimage", is_about_volumes=True),
    "upload_volume": Scene((), "upload", tidy=("image away",), is_about_volumes=True),
    "backup_volume": Scene((), "back up", lost=_volume_data, tidy=("backup away",), is_about_volumes=True),
    "restore_backup": Scene(("back up",), "bring back", tidy=("backup away",), is_about_volumes=True),
}
