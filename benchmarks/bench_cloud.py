"""Rows of a cloud with ten cells, in this process, for the benchmarks of the API."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CELLS = tuple(f"cell{number}" for number in range(1, 11))
START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = 50  # of each cell
BATCH = 2000


def set_up(folder: Path) -> Any:
    """Set the product up on SQLite files in `folder`; returns the users of the tests."""
    os.environ |= {
        "NOVELLA_DATA": str(folder),
        "NOVELLA_CELLS": ",".join(CELLS),
        "NOVELLA_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    settings.ALLOWED_HOSTS = ["*"]
    for alias in ("default", "cell1"):
        call_command("migrate", database=alias, verbosity=0)
    connections.close_all()
    for alias in ("cell0", *CELLS[1:]):  # a copy takes a moment, migrations take seconds
        _copy(folder / "cell1.sqlite3", folder / f"{alias}.sqlite3")
    from tests.compute_rows import make_cloud
    from tests.people import create_people

    people = create_people()
    make_cloud(people)
    from conductor.api_db.models import CellMapping

    for alias in CELLS[2:]:
        CellMapping.objects.create(name=alias)
    return people


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as made, closing(sqlite3.connect(target)) as copy:
        made.backup(copy)


def fill(context: Any, servers: int) -> None:
    """Create active servers of the caller's project, one second apart, in the cells in turns, each with an address."""
    from conductor.api_db.models import CellMapping, InstanceMapping
    from conductor.cell_db.models import Instance
    from tests.compute_rows import make_host

    numbers = dict(CellMapping.objects.values_list("name", "pk"))
    for place, cell in enumerate(CELLS):
        for number in range(HOSTS):
            make_host(cell, f"{cell}-{number}")
        mine = range(place, servers, len(CELLS))
        Instance.objects.using(cell).bulk_create((server_row(context, cell, n) for n in mine), batch_size=BATCH)
        InstanceMapping.objects.bulk_create((mapping_row(context, numbers[cell], n) for n in mine), batch_size=BATCH)


def server_row(context: Any, cell: str, number: int) -> Any:
    from conductor.cell_db.models import Instance
    from conductor.core.request_spec import ImageSpec
    from tests.compute_rows import TINY

    created_at = START + timedelta(seconds=number)
    host = f"{cell}-{number // len(CELLS) % HOSTS}"
    port = {
        "port_uuid": str(UUID(int=number + 2**64)), "network_name": "private", "mac_address": "fa:16:3e:10:20:30",
        "ip_address": f"10.{64 + number // 65536}.{number // 256 % 256}.{number % 256}", "prefix_length": 10,
        "cidr": "10.64.0.0/10", "gateway_ip": "10.64.0.1", "dns_nameservers": [],
    }  # fmt: skip
    return Instance(
        uuid=uuid_of(number), project_id=context.project_id, user_id=context.user_id, name=f"server-{number}",
        hostname=f"server-{number}", vm_state="active", power_state=1, host=host, node=f"{host}.example",
        availability_zone="az-1", flavor=asdict(replace(TINY, extra_specs={"hw:cpu_policy": "shared"})),
        image=asdict(ImageSpec(str(UUID(int=7)), "little-linux", "raw", "bare", size=1024)), addresses=[port],
        metadata={"role": f"web-{number % 7}"}, tags=["blue"] if number % 2 else [], security_groups=["default"],
        reservation_id=f"r-{number:08x}", created_at=created_at, updated_at=created_at + timedelta(seconds=3),
        launched_at=created_at + timedelta(seconds=3),
    )  # fmt: skip


def mapping_row(context: Any, cell_id: int, number: int) -> Any:
    from conductor.api_db.models import InstanceMapping

    return InstanceMapping(
        instance_uuid=uuid_of(number), cell_id=cell_id, project_id=context.project_id, user_id=context.user_id,
        vcpus=1, memory_mb=128, build_run_uuid=uuid_of(number), created_at=START + timedelta(seconds=number),
    )  # fmt: skip


def uuid_of(number: int) -> UUID:
    """Return the uuid of a server by its number, distributed like real ones."""
    return UUID(int=(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)
