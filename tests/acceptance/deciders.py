"""Schedulers in processes of their own, all at once on one PostgreSQL and one small fleet.

with PostgreSQL running: `set_up(folder, url)`, then `decide(folder, url)`; each process writes what it saw to a file.

Each does the same as long as its number is the same: it launches servers within a quota, places batches and members of
groups, and gives some of it back, while the fleet is full most of the time.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.acceptance.nursery import inherited_environment
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]
PROCESSES = 16
ROUNDS = 12
HOSTS = 12
VCPUS = 4
RATIO = 1.5  # 6 vCPUs may be given out of each host
QUOTA = 25
GROUPS: dict[str, tuple[str, dict[str, int]]] = {
    "apart": ("anti-affinity", {}),
    "two-at-most": ("anti-affinity", {"max_server_per_host": 2}),
    "near": ("affinity", {}),
}
DEADLINE_SECONDS = 600.0  # a machine that has much else to do


def set_up(folder: Path, url: str) -> None:
    _run("set-up", folder, url)


def decide(folder: Path, url: str) -> list[dict[str, Any]]:
    """Return the counts of each process: placed, refused, over_quota, given_back, and statements per read of hosts."""
    _run("decide", folder, url)
    return [json.loads((folder / f"result-{number}.json").read_text()) for number in range(PROCESSES)]


def _run(what: str, folder: Path, url: str) -> None:
    own = {
        "NOVELLA_DATA": str(folder / "var"),
        "NOVELLA_DATABASE_URL": url,
        "NOVELLA_CELLS": "cell1,cell2",
        "NOVELLA_HOST_DOWN_SECONDS": "3600",  # these hosts send no heartbeats
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.deciders", what, str(folder)],
        env={**inherited_environment(), **own, "DJANGO_SETTINGS_MODULE": "portal.settings"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


# -- inside -------------------------------------------------------------------------------------------------------


def main(what: str, folder: Path) -> None:
    import django

    django.setup()
    folder.mkdir(parents=True, exist_ok=True)
    if what == "set-up":
        _make_cloud(folder)
        return
    from conductor.scheduler import manager  # noqa: F401 - what every child needs, once
    from conductor.services.servers import instances  # noqa: F401

    children = [_forked(folder, number) for number in range(PROCESSES)]
    (folder / "go").touch()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    sys.exit(max(codes))


def _make_cloud(folder: Path) -> None:
    from conductor.api_db.models import InstanceGroup, Quota
    from conductor.placement.models import ProviderInventory
    from tests.compute_rows import make_cloud
    from tests.fleet import add_host
    from tests.people import create_people

    people = create_people()
    cloud = make_cloud(people)
    ana = people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="instances", limit=QUOTA)
    for index in range(HOSTS):
        add_host(f"host-{index}", f"cell{index % 2 + 1}", size=(VCPUS, 16384, 100))
    ProviderInventory.objects.filter(resource_class="VCPU").update(allocation_ratio=RATIO)
    groups = {}
    for name, (policy, rules) in GROUPS.items():
        made = InstanceGroup.objects.create(
            project_id=ana.project_id, user_id=ana.user_id, name=name, policy=policy, rules=rules
        )
        groups[name] = str(made.uuid)
    known = {"user": ana.user_id, "project": ana.project_id, "image": str(cloud.image.uuid), "groups": groups}
    (folder / "cloud.json").write_text(json.dumps(known))


def _forked(folder: Path, number: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        wait_until("all have been started", (folder / "go").exists, DEADLINE_SECONDS)
        result = _Decider(json.loads((folder / "cloud.json").read_text()), number).work()
        (folder / f"result-{number}.json").write_text(json.dumps(result))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class _Decider:
    def __init__(self, cloud: dict[str, Any], number: int) -> None:
        from conductor.core.context import RequestContext

        self.cloud = cloud
        self.number = number
        self.dice = random.Random(number)
        self.context = RequestContext(
            user_id=cloud["user"], project_id=cloud["project"], request_id=f"req-{uuid4()}", roles=["member"]
        )
        self.counts: Counter[str] = Counter()
        self.statements: list[int] = []
        self.held: list[str] = []

    def work(self) -> dict[str, Any]:
        kinds: list[Callable[[], None]] = [self.launch, self.batch, self.member, self.member, self.give_back]
        if self.number < len(GROUPS):
            self.begin_group(sorted(GROUPS)[self.number])
        for _ in range(ROUNDS):
            self.dice.choice(kinds)()
        return {**self.counts, "statements": self.statements}

    def launch(self) -> None:
        from conductor.core.errors import QuotaExceeded
        from conductor.services.servers import instances
        from conductor.services.servers.types import InstanceCreate

        requested = InstanceCreate(name="web", flavor_ref="1", image_ref=self.cloud["image"], min_count=2, max_count=2)
        try:
            self.select(list(instances.create(self.context, requested).instance_uuids))
        except QuotaExceeded:
            self.counts["over_quota"] += 1

    def batch(self) -> None:
        self.select([str(uuid4()) for _ in range(3)])

    def begin_group(self, name: str) -> None:
        """While there is room: a member that stays to the end."""
        self.join(name, 1)
        self.held.clear()

    def member(self) -> None:
        self.join(self.dice.choice(sorted(GROUPS)), self.dice.choice((1, 1, 2)))

    def join(self, name: str, count: int) -> None:
        from conductor.api_db.models import InstanceGroup, InstanceGroupMember

        uuids = [str(uuid4()) for _ in range(count)]
        group = InstanceGroup.objects.get(uuid=self.cloud["groups"][name])
        for uuid in uuids:
            InstanceGroupMember.objects.create(group=group, instance_uuid=uuid)
        if not self.select(uuids, scheduler_hints={"group": [str(group.uuid)]}):
            InstanceGroupMember.objects.filter(instance_uuid__in=uuids).delete()

    def give_back(self) -> None:
        from conductor.scheduler import manager

        for _ in range(min(2, len(self.held))):
            manager.release(self.held.pop(self.dice.randrange(len(self.held))))
            self.counts["given_back"] += 1

    def select(self, uuids: list[str], **more: Any) -> bool:
        from conductor.core.errors import NoValidHost
        from conductor.core.request_spec import FlavorSpec, RequestSpec
        from conductor.scheduler import manager

        flavor = FlavorSpec("1", "small", 1, 512, root_gb=1)
        spec = RequestSpec(self.cloud["project"], self.cloud["user"], flavor, **more)
        with _counted() as seen:
            try:
                manager.select_destinations(self.context, spec, uuids, step_key=str(uuid4()), run_uuid=str(uuid4()))
            except NoValidHost:
                self.counts["refused"] += len(uuids)
                return False
        self.statements.append(seen["statements"])
        self.counts["placed"] += len(uuids)
        self.held += uuids
        return True


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the statements of this thread in the API's database."""
    from django.db import connections

    from tests.counting import Captured

    seen: Counter[str] = Counter()
    with Captured(connections["default"]) as captured:
        yield seen
    seen["statements"] += len(captured)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
