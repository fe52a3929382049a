"""The state of OVN that the system page shows to operators."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from conductor.cells.lookup import API_ALIAS
from conductor.db.transactions import database_time
from conductor.journal.models import PeriodicLease
from conductor.network.ovn import health
from conductor.network.ovn.desired import switch_name
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.health import OvnHealth
from conductor.services.networks import ovn_projection, ovn_state
from conductor.services.networks.ovn_projection import OvnProjection
from conductor.services.networks.ovn_state import LEASE
from conductor.services.operations import system_health
from conductor.services.operations.system_health import DOWN, LOOK, OFF, UP, Component
from tests import factories
from tests.services import ovn, process
from tests.waiting import WAIT_SECONDS, wait_until


def component(people: Any) -> Component:
    return next(part for part in system_health.survey(people.admin.context()).parts if part.id == "ovn")


def passed_before(seconds: float) -> None:
    done_at = database_time(API_ALIAS) - timedelta(seconds=seconds)
    PeriodicLease.objects.using(API_ALIAS).filter(name=LEASE).update(done_at=done_at)


def test_without_ovn_hosts_have_their_own_networks(people: Any) -> None:
    factories.cells()

    found = component(people)

    assert (found.state, dict(found.facts)) == (OFF, {"Fallback": "the networks of each host's driver"})


def test_ovn_is_up_while_a_conductor_writes_and_all_parts_carry_it_out(
    people: Any, lab: ovn.Lab, projection: OvnProjection
) -> None:
    factories.cells()
    assert component(people).troubles == ("No conductor writes networks into OVN.",)

    projection.carry_out()

    wait_until("northd has carried it out", lambda: component(people).state == UP)
    assert dict(component(people).facts)["Hosts"] == "0 of 0 up"
    passed_before(61)
    assert (component(people).state, component(people).troubles) == (DOWN, ("No conductor writes networks into OVN.",))


def test_a_northd_that_hangs_is_reported(people: Any, lab: ovn.Lab, projection: OvnProjection) -> None:
    factories.cells()
    northd = lab.central.northd
    projection.carry_out()
    wait_until("northd has carried it out", lambda: component(people).state == UP)
    projection.release()
    os.kill(northd.pid, signal.SIGSTOP)
    try:
        projection.carry_out()
        passed_before(6)
        found = component(people)
    finally:
        os.kill(northd.pid, signal.SIGCONT)

    assert (found.state, found.troubles) == (DOWN, ("northd hasn't carried out the last change.",))


def test_a_host_that_hangs_is_reported(people: Any, lab: ovn.Lab, projection: OvnProjection) -> None:
    factories.cells()
    lab.sb("create", "Chassis_Private", "name=h1", "nb_cfg=0")
    for _ in range(2):
        projection.carry_out()
        projection.release()  # the next one begins with a comparison

    wait_until("northd has carried it out", lambda: component(people).state == LOOK)
    assert component(people).troubles == ("h1 hasn't carried out the last changes.",)
    lab.sb("--all", "destroy", "Chassis_Private")


def test_a_gateway_that_hangs_is_found(people: Any, lab: ovn.Lab, projection: OvnProjection) -> None:
    factories.cells()
    for name, address, options in (("h1", "127.0.0.2", "enable-chassis-as-gw"), ("h2", "127.0.0.3", "none")):
        lab.sb("chassis-add", name, "geneve", address)
        lab.sb("set", "Chassis", name, f"other_config:ovn-cms-options={options}")
        lab.sb("create", "Chassis_Private", f"name={name}", "nb_cfg=0")
    for _ in range(2):
        projection.carry_out()
        projection.release()  # the next one begins with a comparison

    wait_until("northd has carried it out", lambda: component(people).state == LOOK)
    found = ovn_state.read(seconds=WAIT_SECONDS).health
    assert found is not None
    assert (found.late_hosts, found.dead_gateways) == (["h1", "h2"], ["h1"])
    for name in ("h1", "h2"):
        lab.sb("chassis-del", name)
    lab.sb("--all", "destroy", "Chassis_Private")


def test_a_row_that_others_keep_changing_is_noted_until_they_stop(
    people: Any, lab: ovn.Lab, projection: OvnProjection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovn_projection, "FULL_PASS_SECONDS", 0.0)
    factories.cells()
    network = factories.network("private", people.ana.context())
    switch = switch_name(str(network.uuid))

    def noted() -> tuple[str, ...]:
        found = ovn_state.read(seconds=WAIT_SECONDS).health
        assert found is not None
        return found.contested

    projection.carry_out()
    for known in ((), (), (f"Logical_Switch {switch}",)):
        lab.nb("set", "Logical_Switch", switch, "other_config:mcast_snoop=true")
        projection.carry_out()
        assert noted() == known
    for known in ((f"Logical_Switch {switch}",), ()):
        projection.carry_out()
        assert noted() == known


def test_a_database_that_does_not_answer_is_reported(people: Any, lab: ovn.Lab, projection: OvnProjection) -> None:
    factories.cells()
    projection.carry_out()

    with override_settings(NOVELLA_OVN_SOUTHBOUND=f"tcp:127.0.0.1:{process.free_port()}"):
        found = component(people)

    assert found.state == DOWN
    assert "tcp:127.0.0.1:" in found.troubles[0]


def test_the_first_server_that_answers_is_used(lab: ovn.Lab) -> None:
    nowhere = f"tcp:127.0.0.1:{process.free_port()}"
    northbound = f"{nowhere},tcp:127.0.0.1:{lab.central.nb_port}"

    found = health.read(northbound, lab.central.sb_remote, seconds=WAIT_SECONDS)

    assert found.hosts == {}
    with pytest.raises(DatabaseUnavailable, match=nowhere):
        health.read(nowhere, lab.central.sb_remote, seconds=WAIT_SECONDS)


def test_a_conductor_writes_and_the_state_is_read_over_tls(people: Any, tmp_path: Path) -> None:
    factories.cells()
    with ovn.lab(tmp_path / "ovn", is_secure=True) as lab:
        files = lab.central.credentials
        assert files is not None
        values = {
            "NOVELLA_OVN_NORTHBOUND": f"ssl:127.0.0.1:{lab.central.nb_port}",
            "NOVELLA_OVN_SOUTHBOUND": f"ssl:127.0.0.1:{lab.central.sb_port}",
            "NOVELLA_OVN_PRIVATE_KEY": files.private_key,
            "NOVELLA_OVN_CERTIFICATE": files.certificate,
            "NOVELLA_OVN_CA_CERTIFICATE": files.ca_certificate,
        }
        with override_settings(**values):
            projection = OvnProjection("conductor-1")
            projection.carry_out()
            wait_until("northd has carried it out", lambda: component(people).state == UP)
            projection.release()


@pytest.mark.parametrize(
    ("found", "is_northd_late", "late_hosts"),
    [
        (OvnHealth(5, 5, {"h1": 5, "h2": 4}), False, []),
        (OvnHealth(5, 4, {"h1": 3, "h2": 4}), True, ["h1"]),
    ],
)
def test_parts_that_are_late(found: OvnHealth, is_northd_late: bool, late_hosts: list[str]) -> None:
    assert (found.is_northd_late, found.late_hosts) == (is_northd_late, late_hosts)
