"""The projection of networks into a real northbound database, with northd behind it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from conductor.network.ovn import database
from conductor.network.ovn.database import NorthboundDatabase
from conductor.network.ovn.desired import DEFAULT_GROUP, desired
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.northbound import COLUMNS, RowKey
from conductor.network.ovn.routing import failover_options
from conductor.network.ovn.topology import CloudTopology
from tests.fixtures.ovn_topologies import BALANCED, CLOUD, GUEST
from tests.services import ovn
from tests.waiting import wait_until


@pytest.fixture
def northbound(lab: ovn.Lab) -> Iterator[NorthboundDatabase]:
    """The database with the rows of CLOUD; the projection's rows are removed afterwards."""
    database = NorthboundDatabase(lab.central.nb_remote)
    database.write(desired(CLOUD))
    yield database
    database.write({})
    database.close()


def is_there(northbound: NorthboundDatabase, topology: CloudTopology) -> bool:
    """Whether the database has these rows, so that another write changes nothing."""
    return not northbound.write(desired(topology))


def test_every_kind_of_row_is_written_once(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    northbound.write(desired(BALANCED))
    assert not northbound.write(desired(BALANCED))
    assert {key.table for key in desired(BALANCED)} == COLUMNS.keys()
    wait_until(
        "northd has made the ports of all kinds",
        lambda: (
            {"port-1", "port-in", "port-out", "physical-net-x", "metadata-net-1", "cr-lrp-port-out"}
            <= set(lab.sb("--bare", "--columns=logical_port", "list", "Port_Binding").split())
        ),
    )
    assert "198.51.100.21" in lab.nb("lr-nat-list", "novella-r-1")
    assert lab.nb("get", "Logical_Switch_Port", "port-1", "external_ids:novella\\:rev").strip() == '"5"'
    assert lab.nb("get", "Logical_Switch_Port", "physical-net-x", "tag").strip() == "7"


def test_options_of_the_whole_database_are_restored_and_options_of_other_clients_stay(lab: ovn.Lab) -> None:
    wanted = {"bfd-min-rx": "300", "bfd-min-tx": "300", "bfd-mult": "3"}
    database = NorthboundDatabase(lab.central.nb_remote, options=failover_options(900))

    def is_kept() -> bool:
        database.write({})
        options = lab.nb("get", "NB_Global", ".", "options")
        return all(f'{name}="{value}"' in options for name, value in wanted.items())

    lab.nb("set", "NB_Global", ".", "options:theirs=7", "options:bfd-mult=9")
    wait_until("the options are written", is_kept)
    lab.nb("set", "NB_Global", ".", "options:bfd-min-rx=1000")
    wait_until("they are written again", is_kept)
    assert lab.nb("get", "NB_Global", ".", "options:theirs").strip() == '"7"'
    database.close()


def test_a_change_writes_only_what_differs(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    moved = replace(CLOUD, ports=(replace(GUEST, host="h2", revision=6), *CLOUD.ports[1:]))

    changes = northbound.write(desired(moved))

    assert (changes.created, changes.deleted) == ({}, frozenset())
    (columns,) = changes.updated.values()
    assert columns.keys() == {"options", "external_ids"}
    assert lab.nb("get", "Logical_Switch_Port", "port-1", "options:requested-chassis").strip() == "h2"


def test_all_rows_of_deleted_networks_are_deleted(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    northbound.write({})

    assert is_there(northbound, CloudTopology()) is False  # the group that drops
    for table in COLUMNS.keys() - {"Port_Group", "ACL"}:
        assert lab.nb("--bare", "--columns=_uuid", "list", table).split() == [], table


def test_rows_of_other_clients_stay(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    lab.nb("ls-add", "another", "--", "lsp-add", "another", "its-port", "--", "pg-add", "pg_another", "its-port")
    lab.nb("lb-add", "balancer", "10.0.0.50:80", "10.0.0.11:80", "--", "ls-lb-add", "novella-net-1", "balancer")
    lab.nb("set", "Logical_Switch", "novella-net-1", "external_ids:of-another=1")

    northbound.write(desired(replace(CLOUD, networks=(replace(CLOUD.networks[0], name="new"), CLOUD.networks[1]))))

    assert "balancer" in lab.nb("ls-lb-list", "novella-net-1")
    assert lab.nb("get", "Logical_Switch", "novella-net-1", "external_ids:of-another").strip() == '"1"'
    assert lab.nb("get", "Logical_Switch", "novella-net-1", "external_ids:novella\\:name").strip() == "new"
    northbound.write({})
    assert "its-port" in lab.nb("lsp-list", "another")
    assert lab.nb("--bare", "--columns=ports", "list", "Port_Group", "pg_another").strip()
    lab.nb("ls-del", "another", "--", "pg-del", "pg_another", "--", "lb-del", "balancer")


@pytest.mark.parametrize(
    ("words", "repaired"),
    [
        (("lsp-set-addresses", "port-1", "unknown"), ("Logical_Switch_Port", "port-1")),
        (("lsp-set-port-security", "port-1"), ("Logical_Switch_Port", "port-1")),
        (("lsp-del", "port-1"), ("Logical_Switch_Port", "port-1")),
        (("lsp-add", "novella-net-1", "stray"), ("Logical_Switch", "novella-net-1")),
        (("acl-add", DEFAULT_GROUP, "to-lport", "2000", "ip4", "allow"), ("Port_Group", DEFAULT_GROUP)),
        (("acl-del", DEFAULT_GROUP), ("Port_Group", DEFAULT_GROUP)),
        (("pg-del", "pg_sg_1"), ("Port_Group", "pg_sg_1")),
        (("lr-nat-del", "novella-r-1"), ("NAT", "f-1")),
        (("lr-del", "novella-r-1"), ("Logical_Router", "novella-r-1")),
        (("ls-del", "novella-net-1"), ("Logical_Switch", "novella-net-1")),
        (("ha-chassis-group-add-chassis", "novella-r-1", "h9", "30"), ("HA_Chassis_Group", "novella-r-1")),
        (("clear", "Logical_Switch", "novella-net-1", "external_ids"), ("Logical_Switch", "novella-net-1")),
    ],
)
def test_an_edit_by_hand_is_repaired(
    lab: ovn.Lab, northbound: NorthboundDatabase, words: tuple[str, ...], repaired: tuple[str, str]
) -> None:
    lab.nb(*words)

    changes = wait_until("the edit is seen and repaired", lambda: northbound.write(desired(CLOUD)))

    assert RowKey(*repaired) in changes.updated.keys() | changes.created.keys()
    assert is_there(northbound, CLOUD)


def test_an_edit_by_hand_is_repaired_by_the_write_of_another_change(
    lab: ovn.Lab, northbound: NorthboundDatabase
) -> None:
    after = desired(replace(CLOUD, ports=(replace(GUEST, host="h2"), *CLOUD.ports[1:])))
    lab.nb("set", "Logical_Router", "novella-r-1", "enabled=false")

    def is_enabled() -> bool:
        northbound.write(after)
        return lab.nb("get", "Logical_Router", "novella-r-1", "enabled").strip() == "true"

    wait_until("the edit is seen and repaired", is_enabled)
    assert not northbound.write(after)


def test_a_deleted_row_is_written_again_at_once(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    rows = desired(CLOUD)
    lab.nb("acl-del", "pg_sg_1")

    wait_until("it is seen", lambda: northbound.write(rows))

    assert "tcp.dst == 80" in lab.nb("acl-list", "pg_sg_1")
    assert not northbound.write(rows)


def test_marks_that_were_removed_by_hand_come_back(lab: ovn.Lab) -> None:
    rows = desired(CLOUD)
    contained = ("NAT", "ACL", "Logical_Switch_Port")
    with opened(lab) as northbound:
        northbound.write(rows)
        for table in ("DHCP_Options", *contained):
            for row in lab.nb("--bare", "--columns=_uuid", "list", table).split():
                lab.nb("clear", table, row, "external_ids")

        def unmarked() -> list[str]:
            northbound.write(rows)
            return [
                lab.nb("--bare", "--columns=_uuid", "find", table, "external_ids={}").strip() for table in contained
            ]

        wait_until("all rows are marked", lambda: not any(unmarked()))
    assert_only(lab, CLOUD)
    for row in lab.nb("--bare", "--columns=_uuid", "find", "DHCP_Options", "external_ids={}").split():
        lab.nb("destroy", "DHCP_Options", row)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_connection_that_knows_the_rows_writes_what_a_new_one_finds(lab: ovn.Lab, count: int) -> None:
    moved = replace(CLOUD, ports=(replace(GUEST, host="h2"), replace(GUEST, uuid="port-2"), *CLOUD.ports[1:]))
    topologies = [CLOUD, BALANCED, moved, replace(CLOUD, routers=())][:count]
    with opened(lab) as northbound:
        for topology in topologies:
            wait_until("it is written", lambda topology=topology: is_there(northbound, topology))
            lab.nb("lsp-del", "port-1")
            wait_until("the port is back", lambda topology=topology: northbound.write(desired(topology)))
    assert_only(lab, topologies[-1])


@contextmanager
def opened(lab: ovn.Lab) -> Iterator[NorthboundDatabase]:
    database = NorthboundDatabase(lab.central.nb_remote)
    wait_until("it has the lock", database.has_lock)
    try:
        yield database
    finally:
        database.close()


def assert_only(lab: ovn.Lab, topology: CloudTopology) -> None:
    """Assert that a new connection finds exactly the rows of a topology, then delete them."""
    with opened(lab) as northbound:
        assert not northbound.write(desired(topology))
        northbound.write({})


def test_a_second_switch_of_the_same_name_is_removed(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    lab.nb("create", "Logical_Switch", "name=novella-net-1")

    def switches() -> list[str]:
        northbound.write(desired(CLOUD))
        return lab.nb("--bare", "--columns=_uuid", "find", "Logical_Switch", "name=novella-net-1").split()

    wait_until("one switch is left", lambda: len(switches()) == 1)
    assert is_there(northbound, CLOUD)


def test_an_empty_database_is_filled(lab: ovn.Lab, northbound: NorthboundDatabase) -> None:
    nb = lab.central.nb
    nb.stop()
    (nb.folder / "conf.db").unlink()
    subprocess.run(["ovsdb-tool", "create", nb.folder / "conf.db", "/usr/share/ovn/ovn-nb.ovsschema"], check=True)
    nb.start()
    lab.nb("init")

    def filled() -> set[str]:
        with suppress(DatabaseUnavailable):  # it has not reconnected yet
            northbound.write(desired(CLOUD))
        return set(lab.nb("--bare", "--columns=name", "list", "Logical_Switch_Port").split())

    wait_until("the rows are back", lambda: {"port-1", "port-in", "port-out"} <= filled())
    assert is_there(northbound, CLOUD)


def test_a_second_writer_is_refused(lab: ovn.Lab) -> None:
    first, second = (NorthboundDatabase(lab.central.nb_remote) for _ in range(2))
    first.write(desired(CLOUD))
    smaller = desired(replace(CLOUD, ports=()))

    with pytest.raises(DatabaseUnavailable, match="lock"):
        second.write(smaller)

    assert is_there(first, CLOUD)
    first.close()
    wait_until("the second one has the lock", second.has_lock)
    assert second.write(smaller).deleted
    second.write({})
    second.close()


def test_the_error_of_a_database_that_hangs_has_the_number_of_rows_and_none_of_them(
    lab: ovn.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TIMEOUT_SECONDS", 2)
    northbound = NorthboundDatabase(lab.central.nb_remote)
    northbound.write(desired(CLOUD))
    wanted = desired(BALANCED)
    os.kill(lab.central.nb.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseUnavailable, match=f"a write of {len(wanted)} rows") as failure:
            northbound.write(wanted)
    finally:
        os.kill(lab.central.nb.pid, signal.SIGCONT)
    assert "novella" not in str(failure.value)
    wait_until("the write is made after all, or again", lambda: not northbound.write(wanted))
    northbound.write({})
    northbound.close()


def test_a_missing_database_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        NorthboundDatabase(f"unix:{tmp_path}/none.sock")
