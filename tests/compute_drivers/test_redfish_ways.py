"""The redfish driver: connections to controllers, hosts' reports, and invalid options."""

from __future__ import annotations

import logging
import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.redfish import bmc
from compute_drivers.redfish.driver import RedfishDriver
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.conformance.base import RecordedProgress
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError, Invalid
from conductor.core.states import PowerState
from conductor.rpc import messages as m
from conductor.rpc.codec import encode
from tests.compute_drivers.bare_metal import Machines, assert_clean, guest_of, host, open_image
from tests.compute_drivers.controllers import DISK_GB, MEMORY_GB, PASSWORD, SPARE, VCPUS, Rack, uuid_of
from tests.sqlite_copies import content_of

pytestmark = pytest.mark.compute_drivers


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc, "POLL_SECONDS", 0.05)


# -- the way to the controllers ---------------------------------------------------------------------------------


@contextmanager
def deaf_address() -> Iterator[str]:
    """Something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def complaint_of(options: dict[str, Any]) -> str:
    with pytest.raises(DriverError) as refused:
        RedfishDriver("rack-9", options, open_image).start()
    return refused.value.message


def test_a_controller_that_is_not_there_or_never_answers_is_named_with_why(options_of: Machines) -> None:
    gone = complaint_of(options_of(SPARE, bmc="http://127.0.0.1:9"))
    assert gone.endswith("The controller of machine m7 does not answer: the connection was refused.")
    with deaf_address() as address:
        slow = complaint_of(options_of(SPARE, bmc=address, options={"request_seconds": 0.2}))
    assert slow.endswith("The controller of machine m7 does not answer: it took too long.")


def test_wrong_credentials_are_reported_and_never_shown(
    options_of: Machines, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "wrong").write_text("hunter2hunter2")
    text = complaint_of(options_of(SPARE, password_file=str(tmp_path / "wrong")))
    assert text.endswith("The controller of machine m7 refuses the user or the password that it was given.")
    assert "hunter2" not in caplog.text + text
    missing = complaint_of(options_of(SPARE, password_file=str(tmp_path / "none")))
    assert missing.endswith("The password file of machine m7 cannot be read: No such file or directory.")


def test_media_and_passwords_are_in_no_log(options_of: Machines, rack: Rack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with host(options_of(SPARE)) as driver:
        driver.spawn(guest_of(str(uuid4()), admin_password="tr0ub4dor"), RecordedProgress())
        (folder,) = (rack.media_dir / driver.host).iterdir()
    text = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(("compute", "sushy.")))
    assert [secret for secret in (PASSWORD, "tr0ub4dor", folder.name) if secret in text] == []


def test_certificates_are_checked_unless_configured_otherwise(rack: Rack, options_of: Machines) -> None:
    ca_file = str(rack.media_dir.parent / "certificate.pem")
    text = complaint_of(options_of(SPARE, bmc=rack.secure_url, verify=True))
    assert text.endswith("does not answer: its certificate is not from an authority that this host trusts.")
    for fields in ({"verify": True, "ca_file": ca_file}, {"verify": False}):
        with host(options_of(SPARE, bmc=rack.secure_url, **fields)) as driver:
            assert driver.guests() == []


def test_an_unresponsive_controller_affects_no_other_and_its_guest_is_as_it_was(
    rack: Rack, options_of: Machines
) -> None:
    with host(options_of(SPARE - 1, SPARE, options={"look_seconds": 0.0})) as driver:
        guests = [guest_of(str(uuid4())) for _ in range(2)]
        for guest in guests:
            driver.spawn(guest, RecordedProgress())
        before = driver.report()
        rack.between.breaks[uuid_of(SPARE)] = 500
        try:
            assert [found.power_state for found in driver.guests()] == [PowerState.RUNNING] * 2
            again = driver.report()
            assert (again.inventory, again.traits) == (before.inventory, before.traits)
            wrong = {machine["name"]: machine["wrong"] for machine in again.capabilities["machines"]}
            assert wrong["m6"] == ""
            assert "answered with error 500" in wrong["m7"]
        finally:
            rack.between.breaks.clear()
        assert {machine["wrong"] for machine in driver.report().capabilities["machines"]} == {""}


# -- behind an agent ----------------------------------------------------------------------------------------------


class Agent:
    """Gives commands to a driver as an agent does, and has their answers."""

    def __init__(self, driver: RedfishDriver, path: Path) -> None:
        self.sent: queue.Queue[Any] = queue.Queue()
        self.journal, self.executor = HostJournal(path), KeyedExecutor("commands", 2)
        config = HostConfig(host=driver.host, cell="cell1", driver=driver.name, journal_path=path)
        shared = AgentResources(self.executor, self.executor, lambda cell, message: self.sent.put(message))
        self.manager = ComputeManager(config, driver, journal=self.journal, resources=shared)

    def answer(self, kind: type[Any], token: int, of: GuestSpec, /, **fields: Any) -> m.StepAnswered:
        address = {"step_key": str(uuid4()), "fencing_token": token, "run_uuid": "r", "cell": "cell1", "host": "rack-9"}
        self.manager.receive(encode(kind(**address, instance_uuid=of.instance_uuid, **fields)))
        while not isinstance(found := self.sent.get(timeout=120), m.StepAnswered):
            pass
        return found

    def stop(self) -> None:
        assert self.executor.stop(20)
        self.journal.close()


def test_an_agent_passes_no_stale_or_unsupported_command_to_a_machine(
    rack: Rack, options_of: Machines, tmp_path: Path
) -> None:
    guest = guest_of(str(uuid4()), admin_password="tr0ub4dor")
    with host(options_of(SPARE)) as driver:
        agent = Agent(driver, tmp_path / "journal.sqlite3")
        assert agent.answer(m.SpawnInstance, 2, guest, guest=guest.to_json()).ok
        before = (rack.state(SPARE), rack.media(SPARE))
        refused = [
            agent.answer(m.DestroyInstance, 1, guest),
            agent.answer(m.PauseInstance, 3, guest),
            agent.answer(m.SnapshotInstance, 4, guest, image_id="copy"),
        ]
        assert [answer.error and answer.error["class"] for answer in refused] == [
            "StaleToken",
            "NotSupported",
            "NotSupported",
        ]
        assert (rack.state(SPARE), rack.media(SPARE)) == before
        assert agent.answer(m.DestroyInstance, 5, guest).ok
        agent.stop()
        assert_clean(rack, driver)
    assert b"tr0ub4dor" not in content_of(tmp_path / "journal.sqlite3", tmp_path / "copy")


# -- reports and commands of a host -----------------------------------------------------------------------------


def test_the_report_has_the_resources_of_the_machines(options_of: Machines) -> None:
    with host(options_of(0, 1, reports_size=True)) as driver:
        report = driver.report()
    amounts = {name: (amount.total, amount.max_unit) for name, amount in report.inventory.items()}
    assert amounts == {
        "VCPU": (2 * VCPUS, VCPUS),
        "MEMORY_MB": (2 * MEMORY_GB * 1024, MEMORY_GB * 1024),
        "DISK_GB": (2 * DISK_GB, DISK_GB),
        "CUSTOM_BAREMETAL": (2, 1),
    }
    assert report.traits == {"COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_ISO", "HW_ARCH_X86_64"}
    assert report.supported_instances == (("x86_64", "baremetal", "hvm"),)
    (first, _) = report.capabilities["machines"]
    assert (first["name"], first["cards"]) == ("m0", ["52:54:00:00:00:00", "52:54:00:00:00:01"])
    assert not RedfishDriver.is_simulated


def test_values_in_the_machines_file_replace_reported_ones(options_of: Machines) -> None:
    options = options_of(0, reports_size=True, vcpus=4, disk_gb=10, options={"resource_class": "CUSTOM_METAL_SMALL"})
    with host(options) as driver:
        inventory = driver.report().inventory
    assert {name: amount.total for name, amount in inventory.items()} == {
        "VCPU": 4,
        "MEMORY_MB": MEMORY_GB * 1024,
        "DISK_GB": 10,
        "CUSTOM_METAL_SMALL": 1,
    }


def test_a_machine_with_a_guest_must_stay_in_the_file(options_of: Machines) -> None:
    with host(options_of(SPARE)) as driver:
        driver.spawn(guest_of(str(uuid4())), RecordedProgress())
        path = Path(driver.options["machines_file"])
        text = path.read_text()
        path.write_text(text.replace('"m7"', '"m8"'))
        with pytest.raises(DriverError, match="Machine m7 has a guest and is not in the machines file; put it back"):
            RedfishDriver(driver.host, driver.options, open_image).start()
        path.write_text(text)


WRONG_OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "erase": ({"erase": "sometimes"}, {}, "'sometimes' is not one of always, never"),
    "media_url": ({"media_url": "file:///media"}, {}, "redfish.media_url must be like https"),
    "resource_class": ({"resource_class": "METAL"}, {}, "'METAL' is not like CUSTOM_BAREMETAL"),
    "no file": ({"machines_file": "nowhere.toml"}, {}, "nowhere.toml cannot be read: No such file"),
    "in the clear": ({}, {"verify": True}, "machine m7: bmc is not encrypted; use https, or say verify = false"),
    "no address": ({}, {"bmc": "192.0.2.17"}, "machine m7: bmc must be like https://192.0.2.17"),
    "user in it": ({}, {"bmc": "https://ana:x@192.0.2.17"}, "machine m7: bmc must be like https://192.0.2.17"),
    "password": ({}, {"password": "hunter2"}, "machine m7 has its password in the file"),
    "name": ({}, {"name": "a/b"}, "machine a/b: name must be letters"),
    "unknown": ({}, {"cpus": 4}, "Driver redfish machine m7 has no option 'cpus'"),
    "ca": ({}, {"ca_file": "ca.pem"}, "machine m7: ca_file is nothing to verify = false"),
    "system": ({}, {"system": "1"}, "machine m7: system must be a path"),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_invalid_options_are_named_before_the_start(options_of: Machines, case: str) -> None:
    options, fields, complaint = WRONG_OPTIONS[case]
    with pytest.raises(Invalid, match=complaint) as refused:
        RedfishDriver("rack-9", options_of(SPARE, options=options, **fields), open_image)
    assert "hunter2" not in refused.value.message


def test_no_machine_is_named_twice(options_of: Machines, tmp_path: Path) -> None:
    options = options_of(6, SPARE)
    path = Path(options["machines_file"])
    path.write_text(path.read_text().replace(uuid_of(6), uuid_of(SPARE)))
    with pytest.raises(Invalid, match="Machine m7 is the same as m6"):
        RedfishDriver("rack-9", options, open_image)
    path.write_text("[[machine")
    with pytest.raises(Invalid, match="is no TOML"):
        RedfishDriver("rack-9", options, open_image)
    path.write_text("machines = 1")
    with pytest.raises(Invalid, match=r"begin each with \[\[machine\]\]"):
        RedfishDriver("rack-9", options, open_image)
