"""Invariants of a cloud at rest, checked on its databases in plain SQL and on its hosts' files.

It uses none of the product's code, so that it does not share its bugs.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.chaos.evidence import Evidence
from tests.sqlite_copies import copy_of

FINAL_RUNS = {"done", "failed (undone)", "failed (not clean)", "cancelled"}
ON, PAUSED, OFF, SUSPENDED = 1, 3, 4, 7
# The power states that a guest may have while its instance is in a state; a guest may also have crashed by itself.
POWER = {
    "active": {ON},
    "paused": {PAUSED},
    "suspended": {SUSPENDED},
    "stopped": {OFF},
    "rescued": {ON},
    "resized": {ON, OFF},
    "shelved": {OFF},
    "soft-delete": {OFF},
    "error": {ON, PAUSED, OFF, SUSPENDED},
}
WITHOUT_GUEST = {"shelved_offloaded", "building"}


def unsettled(evidence: Evidence) -> list[str]:
    """Return the work in progress; a cloud at rest has none."""
    words = evidence.everywhere(
        "SELECT concat_ws(' ', flow, uuid, state, waits_for) AS what FROM journal_workflowrun WHERE state NOT IN "
        "('done', 'failed (undone)', 'failed (not clean)', 'cancelled', 'needs operator') "
        "UNION ALL SELECT concat_ws(' ', 'command', step_key, 'for', host) FROM journal_outboxmessage "
        f"UNION ALL {_HELD_UP} "
        # A lock whose owner died before it opened its run is swept after a minute.
        "UNION ALL SELECT concat_ws(' ', 'lock of', resource, 'for', holder_action) FROM journal_resourcelock"
    )
    left = [f"{name}: {row['what']}" for name, row in words]
    # The cleanup takes a port back that was bound for a request whose process died before there was a workflow.
    left += [f"port {row['uuid']} is bound and not plugged" for row in evidence.rows("api", _NOT_PLUGGED)]
    return left + [f"{name}: {row['what']}" for name in evidence.cells for row in evidence.rows(name, _UNFITTING)]


# A compensation that waited for an unresponsive host continues when the host has done its deferred commands.
_HELD_UP = (
    "SELECT concat_ws(' ', flow, uuid, state) AS what FROM journal_workflowrun AS run WHERE EXISTS (SELECT 1 FROM "
    "journal_steprecord WHERE run_id = run.id AND error->>'class' = 'KeptByHost') AND state = 'failed (not clean)'"
)

_NOT_PLUGGED = (
    "SELECT uuid FROM network_port WHERE device_owner LIKE 'compute:%' AND NOT is_plugged AND binding_host = ''"
)

# Guests in the newest report of a host that do not fit their instances. The next one or two reports resolve them, and
# on a busy machine these come after all other work has ended.
_UNFITTING = (
    "SELECT concat_ws(' ', 'report of', host, unsettled) AS what FROM cell_db_service WHERE EXISTS "
    "(SELECT 1 FROM jsonb_each(unsettled) WHERE value NOT IN ('{}', 'false'))"
)

_IMAGES_OF_VOLUMES = "SELECT uuid, state, inputs FROM journal_workflowrun WHERE flow = 'create_image_of_volumes'"


def violations(evidence: Evidence) -> list[str]:
    """Return all violations, one line each."""
    instances = {
        str(row["uuid"]): {**row, "cell": name}
        for name in evidence.cells
        for row in evidence.rows(name, "SELECT * FROM cell_db_instance WHERE deleted_at IS NULL")
    }
    return [
        *_runs(evidence),
        *_left(evidence),
        *_answers(evidence, instances),
        *_guests(evidence, instances),
        *_allocations(evidence, instances),
        *_inventories(evidence),
        *_ports(evidence, instances),
        *_volumes(evidence, instances),
        *_snapshots(evidence),
        *_quotas(evidence, instances),
        *_tokens(evidence),
        *_histories(evidence),
    ]


def _runs(evidence: Evidence) -> list[str]:
    wrong = []
    for name, row in evidence.everywhere("SELECT flow, uuid, state, uncompensated, error FROM journal_workflowrun"):
        if row["state"] not in FINAL_RUNS or row["state"] == "failed (not clean)":
            wrong.append(
                f"{name}: {row['flow']} {row['uuid']} is {row['state']}: {row['error']} {row['uncompensated']}"
            )
    for name in evidence.databases:
        twice = evidence.rows(name, "SELECT uuid FROM journal_workflowrun GROUP BY uuid HAVING count(*) > 1")
        wrong += [f"{name}: run {row['uuid']} is there twice" for row in twice]
    return wrong


def _left(evidence: Evidence) -> list[str]:
    """Return locks, leases, waits, commands, task states and requests without any worker."""
    wrong = []
    for table in ("journal_resourcelock", "journal_lockwait", "journal_outboxmessage"):
        for name, row in evidence.everywhere(f"SELECT * FROM {table}"):
            wrong.append(f"{name}: left in {table}: {dict(list(row.items())[:4])}")
    owned = evidence.everywhere("SELECT uuid, owner FROM journal_workflowrun WHERE owner IS NOT NULL")
    wrong += [f"{name}: run {row['uuid']} still has the owner {row['owner']}" for name, row in owned]
    opened = evidence.everywhere("SELECT step_key FROM journal_steprecord WHERE state IN ('running', 'waiting')")
    wrong += [f"{name}: step {row['step_key']} is still open" for name, row in opened]
    for name in evidence.cells:
        query = "SELECT uuid, task_state FROM cell_db_instance WHERE task_state IS NOT NULL"
        wrong += [f"{name}: {row['uuid']} still has the task {row['task_state']}" for row in evidence.rows(name, query)]
        query = "SELECT uuid FROM cell_db_instance WHERE vm_state = 'building' AND deleted_at IS NULL"
        wrong += [f"{name}: {row['uuid']} is still building" for row in evidence.rows(name, query)]
    requests = evidence.rows("api", "SELECT instance_uuid FROM api_db_buildrequest")
    wrong += [f"build request of {row['instance_uuid']} left" for row in requests]
    halves = evidence.rows("api", "SELECT uuid, status FROM image_image WHERE status NOT IN ('active', 'deleted')")
    return wrong + [f"image {row['uuid']} is {row['status']}" for row in halves]


def _answers(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return the requests that were answered with 2xx and did not finish: their workflows are found by the request id.

    The answer 500 is a failure, but for the one action that waits for its workflow, and only if that has failed. A
    delete may have joined one in progress, or a build that then released its lock: it is done when the server is gone.
    One that was deferred for an unreachable cell may find the server locked there, and has failed then.
    """
    runs = {
        row["request_id"]: row
        for _, row in evidence.everywhere("SELECT request_id, flow, state, inputs FROM journal_workflowrun")
        if row["state"] in FINAL_RUNS
    }
    refused = {str(row["instance_uuid"]) for row in evidence.rows("api", _REFUSED_LATE)}
    wrong = []
    for answer in map(json.loads, evidence.answers.read_text().splitlines()):
        if answer["status"] == FAILURE:
            wrong += _failure(evidence, answer, runs.get(answer["request_id"]), instances)
        if not 200 <= answer["status"] < 300:
            continue
        what = f"{answer['verb']} of {answer['server']} was answered {answer['status']} ({answer['request_id']}), and"
        if answer["verb"] == "delete":
            wrong += [f"{what} the server is there"] if answer["server"] in instances.keys() - refused else []
        elif answer["request_id"] not in runs:
            wrong.append(f"{what} there is no workflow of it that ended")
    return wrong


def _failure(
    evidence: Evidence,
    answer: Mapping[str, Any],
    run: Mapping[str, Any] | None,
    instances: Mapping[str, dict[str, Any]],
) -> list[str]:
    """Return the error of an answer 500: it is right only for a port that the server did not get, and that is free."""
    what = f"{answer['verb']} of {answer['server']} was answered 500 ({answer['request_id']})"
    if answer["verb"] != WAITS_FOR_ITS_END:
        return [f"{what}: {answer['answer']}"]
    if run is None or run["flow"] != WAITS_FOR_ITS_END or run["state"] == "done":
        return [f"{what}, and there is no workflow of it that failed: {answer['answer']}"]
    port = run["inputs"]["port_id"]
    has = {had["port_uuid"] for had in instances.get(answer["server"], {}).get("addresses", ())}
    has |= {str(row["uuid"]) for row in evidence.rows("api", _PORTS_OF.format(answer["server"]))}
    return [f"{what}, and the server has the port {port}"] if port in has else []


FAILURE = 500
WAITS_FOR_ITS_END = "attach_interface"  # action and flow
_PORTS_OF = "SELECT uuid FROM network_port WHERE device_id = '{}'"


_REFUSED_LATE = (
    "SELECT instance_uuid FROM journal_workflowrun WHERE flow = 'delete_when_cell_is_back' "
    "AND state = 'failed (undone)' AND error->>'class' = 'Conflict'"
)


def _guests(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    """Check guests: each is on the one host of its instance, in a fitting state, with its volumes and ports."""
    wrong, homes = [], defaultdict(list)
    notes = evidence.guests()
    for host, guests in notes.items():
        for uuid in guests:
            homes[uuid].append(host)
    for uuid, hosts in homes.items():
        if uuid not in instances:
            wrong.append(f"guest {uuid} on {hosts} belongs to no instance")
        elif len(hosts) > 1:
            wrong.append(f"guest {uuid} is on {hosts} at once")
    for uuid, instance in instances.items():
        host, state = instance["host"], instance["vm_state"]
        note = notes.get(host or "", {}).get(uuid)
        if host is None or state in WITHOUT_GUEST:
            wrong += [f"{uuid} ({state}) has no host, and a guest on {homes[uuid]}"] if homes.get(uuid) else []
        elif note is None and state != "error":
            wrong.append(f"{uuid} ({state}) should be on {host}, and is on {homes.get(uuid, 'none')}")
        elif note is not None:
            wrong += _guest(uuid, instance, note, _devices(evidence, instance))
    return wrong


def _devices(evidence: Evidence, instance: Mapping[str, Any]) -> set[str]:
    query = f"SELECT volume_uuid FROM cell_db_blockdevice WHERE instance_uuid = '{instance['uuid']}'"
    return {str(row["volume_uuid"]) for row in evidence.rows(instance["cell"], query)}


def _guest(uuid: str, instance: Mapping[str, Any], note: Mapping[str, Any], devices: set[str]) -> list[str]:
    state, wrong = instance["vm_state"], []
    if note["power_state"] not in POWER[state]:
        wrong.append(f"{uuid} is {state}, and its guest's power state is {note['power_state']}")
    if set(note["volumes"]) != devices:
        wrong.append(f"{uuid} has the volumes {sorted(devices)}, and its guest {sorted(note['volumes'])}")
    ports = {port["port_uuid"] for port in instance["addresses"]}
    if set(note["ports"]) != ports:
        wrong.append(f"{uuid} has the ports {sorted(ports)}, and its guest {sorted(note['ports'])}")
    if state not in ("rescued", "error") and note["memory_mb"] != instance["flavor"]["memory_mb"]:
        wrong.append(f"{uuid} has {instance['flavor']['memory_mb']} MB, and its guest {note['memory_mb']}")
    return wrong


def _allocations(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    """Check allocations: each host has those of its instances and of unconfirmed moves."""
    held: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    query = (
        "SELECT c.uuid AS consumer, p.name AS host, a.resource_class, a.amount FROM placement_allocation a "
        "JOIN placement_consumer c ON c.id = a.consumer_id JOIN placement_resourceprovider p ON p.id = a.provider_id"
    )
    for row in evidence.rows("api", query):
        held[str(row["consumer"]), row["host"]][row["resource_class"]] += row["amount"]
    wanted = {
        (uuid, instance["host"]): _resources(_of_its_host(evidence, instance))
        for uuid, instance in instances.items()
        if instance["host"] is not None
    }
    wanted |= _kept_by_moves(evidence, instances)
    return [
        f"consumer {key[0]} holds {dict(held[key])} at {key[1]} instead of {dict(wanted.get(key, {}))}"
        for key in held.keys() | wanted.keys()
        if held[key] != wanted.get(key, Counter())
    ]


def _of_its_host(evidence: Evidence, instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of the flavor on the host: a root disk that is a volume takes none."""
    query = f"SELECT 1 AS one FROM cell_db_blockdevice WHERE instance_uuid = '{instance['uuid']}' AND boot_index = 0"
    is_on_volume = bool(evidence.rows(instance["cell"], query))
    return {**instance["flavor"], **({"root_gb": 0} if is_on_volume else {})}


def _kept_by_moves(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> dict[tuple[str, str], Counter[str]]:
    """Return the allocations at the sources of unconfirmed moves, in the moves' own names."""
    kept: dict[tuple[str, str], Counter[str]] = {}
    for name in evidence.cells:
        for move in evidence.rows(name, "SELECT * FROM cell_db_migration WHERE status = 'finished'"):
            instance = instances.get(str(move["instance_uuid"]), {})
            if instance.get("vm_state") != "resized":
                continue
            amounts = _resources(move["old_flavor"])
            if instance["host"] == move["source_host"]:  # one place holds the larger of both sizes, not their sum
                amounts -= _resources(instance["flavor"])
            kept[str(move["uuid"]), move["source_host"]] = amounts
    return kept


def _inventories(evidence: Evidence) -> list[str]:
    """`used` is the sum of what is held, and no more than there is."""
    query = (
        "SELECT p.name AS host, i.*, (SELECT coalesce(sum(a.amount), 0) FROM placement_allocation a "
        "WHERE a.provider_id = i.provider_id AND a.resource_class = i.resource_class) AS held "
        "FROM placement_inventory i JOIN placement_resourceprovider p ON p.id = i.provider_id"
    )
    wrong = []
    for row in evidence.rows("api", query):
        if row["used"] != row["held"]:
            wrong.append(f"{row['host']} counts {row['used']} {row['resource_class']}, and {row['held']} are held")
        if row["used"] > (row["total"] - row["reserved"]) * row["allocation_ratio"]:
            wrong.append(f"{row['host']} is overcommitted in {row['resource_class']}")
    return wrong


def _resources(flavor: Mapping[str, Any]) -> Counter[str]:
    disk = flavor["root_gb"] + flavor["ephemeral_gb"] + -(-flavor["swap_mb"] // 1024)
    amounts = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["memory_mb"], "DISK_GB": disk}
    return Counter({name: amount for name, amount in amounts.items() if amount})


def _ports(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    wrong = []
    for port in evidence.rows("api", "SELECT * FROM network_port WHERE device_owner LIKE 'compute:%'"):
        instance = instances.get(str(port["device_id"]))
        if instance is None:
            wrong.append(f"port {port['uuid']} belongs to {port['device_id']}, which is gone")
        elif port["binding_host"] and instance["host"] and port["binding_host"] != instance["host"]:
            wrong.append(f"port {port['uuid']} is bound to {port['binding_host']}, its server is on {instance['host']}")
    query = "SELECT subnet_id, ip_address FROM network_addressallocation GROUP BY 1, 2 HAVING count(*) > 1"
    return wrong + [f"address {row['ip_address']} is given twice" for row in evidence.rows("api", query)]


def _volumes(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    """Check that the volume, its attachment and the cell's block device agree."""
    attached = {
        str(row["volume"]): str(row["instance_uuid"])
        for row in evidence.rows(
            "api",
            "SELECT v.uuid AS volume, a.instance_uuid FROM volume_volumeattachment a "
            "JOIN volume_volume v ON v.id = a.volume_id",
        )
    }
    devices = {
        str(row["volume_uuid"]): str(row["instance_uuid"])
        for name in evidence.cells
        for row in evidence.rows(name, "SELECT volume_uuid, instance_uuid FROM cell_db_blockdevice")
    }
    wrong = [
        f"volume {uuid}: attached to {attached.get(uuid)}, and the cell says {devices.get(uuid)}"
        for uuid in attached.keys() | devices.keys()
        if attached.get(uuid) != devices.get(uuid) or devices.get(uuid) not in instances
    ]
    for row in evidence.rows("api", "SELECT uuid, status FROM volume_volume"):
        expected = "in-use" if str(row["uuid"]) in attached else "available"
        if row["status"] != expected:
            wrong.append(f"volume {row['uuid']} is {row['status']} instead of {expected}")
    return wrong


def _snapshots(evidence: Evidence) -> list[str]:
    """Return snapshots that are never finished, and those of an image of a server that was not made after all."""
    rows = evidence.rows("api", "SELECT uuid, status FROM volume_snapshot")
    there = {str(row["uuid"]): row["status"] for row in rows}
    wrong = [f"snapshot {uuid} is {status}" for uuid, status in there.items() if status == "creating"]
    for name, run in evidence.everywhere(_IMAGES_OF_VOLUMES):
        left = [one["snapshot_id"] for one in run["inputs"]["snapshots"] if one["snapshot_id"] in there]
        if run["state"] != "done" and left:
            wrong.append(f"{name}: run {run['uuid']} is {run['state']}, and left snapshots of no image: {left}")
    return wrong + _images_without_snapshots(evidence, there)


def _images_without_snapshots(evidence: Evidence, there: Mapping[str, str]) -> list[str]:
    """Return images of servers whose snapshots are gone: they live and die together."""
    kept = {str(row["snapshot_uuid"]) for row in evidence.rows("api", _KEPT_BY_IMAGES)}
    wrong = []
    for row in evidence.rows("api", _IMAGES_WITH_SNAPSHOTS):
        listed = {one.get("snapshot_id") for one in json.loads(row["listed"])} - {None}
        wrong += [
            f"image {row['uuid']} names snapshot {uuid}, which is gone" for uuid in sorted(listed - {*there, *kept})
        ]
    return wrong


# The data that an image keeps, also where its snapshot was deleted by itself.
_KEPT_BY_IMAGES = "SELECT snapshot_uuid FROM volume_imagesnapshot WHERE NOT is_released"
_IMAGES_WITH_SNAPSHOTS = (
    "SELECT uuid, properties->>'block_device_mapping' AS listed FROM image_image "
    "WHERE status = 'active' AND properties->>'block_device_mapping' IS NOT NULL"
)


def _quotas(evidence: Evidence, instances: Mapping[str, dict[str, Any]]) -> list[str]:
    """Check that a project's usage equals its resources."""
    counted, has = Counter(), Counter()
    query = "SELECT instance_uuid, project_id, vcpus, memory_mb, is_deleted FROM api_db_instancemapping"
    for row in evidence.rows("api", query):
        if not row["is_deleted"]:
            counted[row["project_id"], "servers"] += 1
            if str(row["instance_uuid"]) not in instances:
                return [f"{row['instance_uuid']} is counted, and is in no cell"]
    for instance in instances.values():
        has[instance["project_id"], "servers"] += 1
    return [f"{key} counted {counted[key]}, there are {has[key]}" for key in counted | has if counted[key] != has[key]]


def _tokens(evidence: Evidence) -> list[str]:
    """Check that no host obeyed a lower token after a higher one, and that no run continued with one."""
    wrong = []
    for path in sorted(evidence.agents.glob("*.sqlite3")):
        with _copy_of(path) as journal:
            highest = dict(journal.execute("SELECT instance_uuid, highest_token FROM tokens"))
            for uuid, token in journal.execute("SELECT instance_uuid, fencing_token FROM commands"):
                if token > highest.get(uuid, -1):
                    wrong.append(f"{path.name}: a command for {uuid} has a token that was never noted")
    for name in evidence.databases:
        query = "SELECT run_id, fencing_token FROM journal_steprecord ORDER BY id"
        newest: defaultdict[int, int] = defaultdict(int)
        for row in evidence.rows(name, query):
            if row["fencing_token"] < newest[row["run_id"]]:
                wrong.append(f"{name}: run {row['run_id']} worked with token {row['fencing_token']} after a newer one")
            newest[row["run_id"]] = max(newest[row["run_id"]], row["fencing_token"])
    return wrong


@contextmanager
def _copy_of(path: Path) -> Iterator[sqlite3.Connection]:
    """Copy a host's journal: its agent allows no other process to open the file itself."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(copy_of(path, Path(folder)))
        try:
            yield connection
        finally:
            connection.close()


def _histories(evidence: Evidence) -> list[str]:
    """Check events: each run began once and ended once, and each attempt of each step began once."""
    wrong = []
    for name in evidence.databases:
        reported: defaultdict[str, Counter[str]] = defaultdict(Counter)
        query = "SELECT run_uuid, kind, count(*) AS n FROM journal_event WHERE run_uuid IS NOT NULL GROUP BY 1, 2"
        for row in evidence.rows(name, query):
            reported[str(row["run_uuid"])][row["kind"]] = row["n"]
        query = (
            "SELECT r.uuid, r.flow, r.state, r.started_at, count(s.id) AS steps FROM journal_workflowrun r "
            "LEFT JOIN journal_steprecord s ON s.run_id = r.id WHERE r.flow <> 'reap' GROUP BY r.id"
        )
        for row in evidence.rows(name, query):
            kinds = reported[str(row["uuid"])]
            if row["started_at"] is not None and kinds["run.ended"] < 1:
                wrong.append(f"{name}: the end of {row['flow']} {row['uuid']} was not emitted")
            if kinds["step.started"] != row["steps"]:
                wrong.append(
                    f"{name}: {row['flow']} {row['uuid']} has {row['steps']} tries, but {kinds['step.started']} events"
                )
    return wrong
