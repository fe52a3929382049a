"""The simulated hypervisor: driver conformance, state after a kill, and injected faults."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.fake import node
from compute_drivers.fake.driver import FakeDriver
from compute_drivers.fake.faults import Faults
from conductor.conformance.driver import DriverConformance, MakeGuest, RecordedProgress
from conductor.core.compute_driver import ComputeDriver, GuestInfo
from conductor.core.errors import BuildAborted, DriverError, Invalid, StaleToken
from conductor.core.states import PowerState
from tests.compute_drivers.moved_clock import MovedClock
from tests.fixtures.simulated_guests import IMAGE, PORT, started
from tests.guests import ImageShelf, guest_of

# Work that is stopped; a build that is not stopped runs into the time limit of the tests.
FAR_TOO_LONG = 900.0


class TestConformance(DriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Iterator[ComputeDriver]:
        driver = started(state_file=str(tmp_path / "guests.json"), latency_seconds=0.02, live_migration_seconds=0.2)
        yield driver
        driver.stop()

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[ComputeDriver]:
        other = started("sim-2", state_file=str(tmp_path / "others.json"))
        yield other
        other.stop()

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return lambda uuid: guest_of(uuid, IMAGE, ports=(PORT,))


def test_a_simulated_host_reports_its_configured_values() -> None:
    report = started("sim-7", vcpus=16, memory_mb=4096, disk_gb=100, cpu_allocation_ratio=2.0).report()
    assert report.node == "sim-7"
    amounts = {name: (a.total, a.reserved, a.allocation_ratio, a.max_unit) for name, a in report.inventory.items()}
    assert amounts == {
        "VCPU": (16, 0, 2.0, 16),
        "MEMORY_MB": (4096, 512, 1.0, 4096),
        "DISK_GB": (100, 0, 1.0, 100),
    }
    assert report.hypervisor_type == "fake"
    assert report.supported_instances == (("x86_64", "fake", "hvm"),)
    assert report.traits == {"COMPUTE_NODE", "CUSTOM_SIMULATED"}
    assert FakeDriver.is_simulated


def test_the_console_states_that_the_guest_is_simulated() -> None:
    driver, guest = started(), guest_of(str(uuid4()), IMAGE, ports=(PORT,), hostname="web-9")
    driver.spawn(guest, RecordedProgress())
    text = driver.console_log(guest.instance_uuid, 0).decode()
    assert "simulated guest: nothing runs behind this console" in text
    assert "simulated guest: eth0 has 10.64.0.5/20" in text
    assert "simulated guest: hostname web-9" in text
    assert "simulated guest: 1 vCPU, 64 MB, image simulated-linux" in text
    assert driver.console_log(guest.instance_uuid, 10).decode() == text[10:]


def test_without_a_state_file_guests_end_with_the_driver() -> None:
    driver, guest = started(), guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
    assert started().guests() == []


def test_guests_survive_kill_9(tmp_path: Path) -> None:
    state_file, uuid = tmp_path / "deep" / "guests.json", str(uuid4())
    program = (
        "import os, signal, sys\n"
        "from tests.compute_drivers.test_fake import IMAGE, started\n"
        "from tests.guests import guest_of\n"
        "driver = started(state_file=sys.argv[1])\n"
        "driver.spawn(guest_of(sys.argv[2], IMAGE), lambda message, share: None)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(state_file), uuid], check=False, timeout=240)
    assert done.returncode == -signal.SIGKILL
    assert started(state_file=str(state_file)).guests() == [GuestInfo(uuid, PowerState.RUNNING)]
    assert sorted(path.name for path in state_file.parent.iterdir()) == ["guests.json", "guests.json.lock"]


def test_a_damaged_state_file_is_a_driver_error(tmp_path: Path) -> None:
    state_file = tmp_path / "guests.json"
    state_file.write_text("{")
    with pytest.raises(DriverError, match=r"state file guests\.json cannot be read"):
        started(state_file=str(state_file))
    assert state_file.read_text() == "{"


def test_a_state_file_that_cannot_be_written_fails_the_build_and_changes_nothing(tmp_path: Path) -> None:
    state_file = tmp_path / "guests.json"
    driver = started(state_file=str(state_file))
    (tmp_path / "guests.json.part").mkdir()
    with pytest.raises(DriverError, match="cannot be written"):
        driver.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress())
    assert driver.guests() == []
    assert not state_file.exists()


def test_a_build_takes_its_time_and_can_be_stopped_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, guest = started(latency_seconds=60.0), guest_of(str(uuid4()), IMAGE)
    clock = MovedClock()
    with monkeypatch.context() as patched:
        patched.setattr(node, "time", clock)
        driver.spawn(guest, RecordedProgress())
    assert clock.now >= 60.0
    slow = started(latency_seconds=FAR_TOO_LONG)
    with pytest.raises(StaleToken):
        slow.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress(stop_at=2))
    assert slow.guests() == []
    assert [found.instance_uuid for found in driver.guests()] == [guest.instance_uuid]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"vcpu": 4}, "Driver fake has no option 'vcpu'."),
        ({"vcpus": "many"}, "Option fake.vcpus: 'many' is not a whole number."),
        ({"vcpus": 0}, "Option fake.vcpus: 0 is less than 1."),
        ({"latency_seconds": -1}, "Option fake.latency_seconds: -1 is less than 0."),
        ({"faults": {"spwan": {}}}, "Faults: there is no call 'spwan'."),
        ({"faults": {"spawn": {"times": 1}}}, "Driver fake.faults.spawn has no option 'times'."),
        ({"faults": {"spawn": {"error": "KeyError"}}}, "is not one of DriverError, BuildAborted, GuestMissing."),
        ({"faults": {"spawn": {"match_name": "("}}}, "Faults: '(' is not a regular expression."),
        ({"faults": {"spawn": "always"}}, "Faults: a rule of spawn is a mapping, not 'always'."),
    ],
)
def test_wrong_options_are_named(options: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=re.escape(complaint)):
        FakeDriver("sim-1", options, ImageShelf().open)


class TestFaults:
    """Rules of the option and of the file."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "faults.json"

    def test_it_fails_as_often_as_configured_and_leaves_nothing(self) -> None:
        driver = started(faults={"spawn": {"fail_times": 2, "message": "the disk is on fire"}})
        guest = guest_of(str(uuid4()), IMAGE)
        for _ in range(2):
            with pytest.raises(DriverError, match=r"^the disk is on fire$"):
                driver.spawn(guest, RecordedProgress())
            assert driver.guests() == []
        driver.spawn(guest, RecordedProgress())
        assert len(driver.guests()) == 1

    def test_the_error_is_the_one_named(self) -> None:
        driver = started(faults={"spawn": {"fail_times": 1, "error": "BuildAborted"}})
        with pytest.raises(BuildAborted, match="fails as configured"):
            driver.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress())

    def test_rules_match_names_and_hosts(self) -> None:
        rule = {"fail_times": 99, "match_name": "^db-", "match_host": "sim-1$"}
        with pytest.raises(DriverError):
            started("sim-1", faults={"spawn": rule}).spawn(
                guest_of(str(uuid4()), IMAGE, name="db-1"), RecordedProgress()
            )
        for host, name in (("sim-1", "web-1"), ("sim-2", "db-1")):
            driver = started(host, faults={"spawn": rule})
            driver.spawn(guest_of(str(uuid4()), IMAGE, name=name), RecordedProgress())
            assert len(driver.guests()) == 1

    def test_a_destroy_that_fails_keeps_the_guest(self) -> None:
        driver, guest = started(faults={"destroy": {"fail_times": 1}}), guest_of(str(uuid4()), IMAGE)
        driver.spawn(guest, RecordedProgress())
        with pytest.raises(DriverError):
            driver.destroy(guest.instance_uuid)
        assert len(driver.guests()) == 1
        driver.destroy(guest.instance_uuid)
        assert driver.guests() == []

    def test_a_delay_can_be_stopped(self) -> None:
        driver = started(faults={"spawn": {"delay_seconds": FAR_TOO_LONG}})
        with pytest.raises(StaleToken):
            driver.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress(stop_at=2))
        assert driver.guests() == []

    def test_several_rules_for_one_call(self) -> None:
        rules = [{"fail_times": 1, "message": "first"}, {"fail_times": 1, "message": "second"}]
        faults = Faults("sim-1", {"report": rules}, None)
        for expected in ("first", "second"):
            with pytest.raises(DriverError, match=expected):
                faults.meet("report")
        faults.meet("report")

    def test_the_file_steers_a_running_driver(self, file: Path) -> None:
        driver = started(faults_file=str(file))
        driver.report()
        file.write_text(json.dumps({"report": {"fail_times": 1, "message": "now"}}))
        with pytest.raises(DriverError, match="now"):
            driver.report()
        driver.report()
        file.unlink()
        driver.report()

    def test_hosts_and_restarts_share_the_count_of_the_file(self, file: Path) -> None:
        file.write_text(json.dumps({"report": {"fail_times": 3}}))
        failed = 0
        for host in ("sim-1", "sim-2", "sim-3", "sim-1", "sim-2", "sim-3"):
            try:
                started(host, faults_file=str(file)).report()
            except DriverError:
                failed += 1
        assert failed == 3

    def test_threads_share_the_count_of_the_file(self, file: Path) -> None:
        file.write_text(json.dumps({"report": {"fail_times": 25}}))
        failures: list[int] = []

        def ask() -> None:
            driver = started(faults_file=str(file))
            for _ in range(10):
                try:
                    driver.report()
                except DriverError:
                    failures.append(1)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=240)
        assert len(failures) == 25

    def test_writing_the_file_again_counts_again(self, file: Path) -> None:
        rules, driver = json.dumps({"report": {"fail_times": 1}}), started(faults_file=str(file))
        for moment in (1_000, 2_000):
            file.write_text(rules)
            os.utime(file, (moment, moment))
            with pytest.raises(DriverError):
                driver.report()
            driver.report()

    @pytest.mark.parametrize("text", ["{", "[]", '{"spwan": {}}', '{"report": {"times": 1}}'])
    def test_a_wrong_file_is_a_driver_error(self, file: Path, text: str) -> None:
        file.write_text(text)
        with pytest.raises(DriverError, match="faults file is"):
            started(faults_file=str(file)).report()
