"""The redfish driver against controllers that are programs: the law for drivers, and what is its own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pycdlib
import pytest

from compute_drivers.redfish import bmc
from compute_drivers.redfish.driver import RedfishDriver
from conductor.conformance.base import MakeGuest, RecordedProgress, power_state
from conductor.conformance.driver import DriverConformance
from conductor.core.compute_driver import GuestInfo, VolumeConnection
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, StaleToken
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState
from tests.compute_drivers.bare_metal import IMAGES, ISO, Machines, assert_clean, guest_of, host, open_image, port
from tests.compute_drivers.controllers import SPARE, VCPUS, Rack, uuid_of

pytestmark = pytest.mark.compute_drivers


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc, "POLL_SECONDS", 0.05)


@pytest.fixture(scope="module")
def only(options_of: Machines) -> Iterator[RedfishDriver]:
    with host(options_of(SPARE)) as driver:
        yield driver


@pytest.fixture
def spare(only: RedfishDriver) -> Iterator[RedfishDriver]:
    """A host with one machine."""
    yield only
    for guest in only.guests():
        only.destroy(guest.instance_uuid)


@pytest.fixture(scope="module")
def whole(options_of: Machines) -> Iterator[RedfishDriver]:
    """A host with all machines but the spare one."""
    with host(options_of(*range(SPARE)), "rack-1") as driver:
        yield driver


class TestRedfish(DriverConformance):
    """All of the law, on a rack of machines."""

    @pytest.fixture
    def driver(self, whole: RedfishDriver) -> RedfishDriver:  # type: ignore[override]
        return whole

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return guest_of


# -- what a machine gets --------------------------------------------------------------------------------------


def test_a_machine_boots_the_image_once_and_has_its_metadata(rack: Rack, spare: RedfishDriver) -> None:
    keys = {"public_key": "ssh-ed25519 AAAA ana", "admin_password": "tr0ub4dor", "ports": (port(1), port(2))}
    guest = guest_of(str(uuid4()), **keys)
    spare.spawn(guest, RecordedProgress())
    state, media = rack.state(SPARE), rack.media(SPARE)
    assert (state["power_state"], state["boot_device"]) == ("On", "Cd")
    assert set(media) == {"Cd", "Floppy"}
    assert urlopen(media["Cd"]).read() == ISO
    config = config_of(media["Floppy"])
    about = json.loads(config["/openstack/latest/meta_data.json"])
    assert (about["uuid"], about["admin_pass"]) == (guest.instance_uuid, "tr0ub4dor")
    links = json.loads(config["/openstack/latest/network_data.json"])["links"]
    assert [link["ethernet_mac_address"] for link in links] == [f"52:54:00:00:0{SPARE}:0{card}" for card in range(2)]
    spare.reboot(guest, is_hard=True, timeout_seconds=0.0)
    assert set(rack.media(SPARE)) == {"Floppy"}  # from its own disk now
    spare.destroy(guest.instance_uuid)
    assert_clean(rack, spare)


def config_of(url: str) -> dict[str, bytes]:
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(urlopen(url).read()))
    found = {}
    for folder, _, names in iso.walk(joliet_path="/"):
        for name in names:
            data = io.BytesIO()
            iso.get_file_from_iso_fp(data, joliet_path=f"{folder.rstrip('/')}/{name}")
            found[f"{folder.rstrip('/')}/{name}"] = data.getvalue()
    return found


def test_a_host_may_always_boot_from_the_image_and_leave_out_the_config_drive(rack: Rack, options_of: Machines) -> None:
    guest = guest_of(str(uuid4()))
    with host(options_of(SPARE, options={"boot": "always", "config_drive": False})) as driver:
        driver.spawn(guest, RecordedProgress())
        driver.reboot(guest, is_hard=False, timeout_seconds=1.0)
        assert set(rack.media(SPARE)) == {"Cd"}
        assert [boot["Boot"]["BootSourceOverrideEnabled"] for boot in [_patched(driver)]] == ["Continuous"]


def _patched(driver: RedfishDriver) -> Any:
    (name,) = driver.node.bmcs
    return driver.node.bmcs[name]._system().json


def test_a_rebuilt_machine_starts_from_the_new_image_and_what_cannot_be_had_changes_nothing(
    rack: Rack, spare: RedfishDriver
) -> None:
    guest = guest_of(str(uuid4()))
    spare.spawn(guest, RecordedProgress())
    before = rack.media(SPARE)
    with pytest.raises(BuildAborted, match="is no disc that a machine could boot"):
        spare.rebuild(replace(guest, image=ImageSpec("text", disk_format="iso")), RecordedProgress(), is_running=True)
    assert (rack.media(SPARE), power_state(spare, guest)) == (before, PowerState.RUNNING)
    other = replace(guest, image=ImageSpec("other", disk_format="iso"))
    spare.rebuild(other, RecordedProgress(), is_running=False)
    assert power_state(spare, guest) is PowerState.SHUTDOWN
    spare.power_on(other)
    assert urlopen(rack.media(SPARE)["Cd"]).read() == IMAGES["other"]
    assert len(list((rack.media_dir / spare.host).glob("*/*"))) == 2


def test_a_guest_is_asked_to_shut_down_and_ended_when_it_does_not(rack: Rack, spare: RedfishDriver) -> None:
    guest = guest_of(str(uuid4()))
    spare.spawn(guest, RecordedProgress())
    spare.trigger_crash_dump(guest.instance_uuid)
    assert rack.machines.interrupts[-1] == uuid_of(SPARE)
    for deaf in (set(), {uuid_of(SPARE)}):
        rack.machines.deaf.clear()
        rack.machines.deaf.update(deaf)
        spare.power_off(guest.instance_uuid, 0.05)
        assert rack.state(SPARE)["power_state"] == "Off"
        spare.power_on(guest)
    rack.machines.deaf.clear()


# -- what is refused, and what goes wrong -----------------------------------------------------------------------

SMALL = FlavorSpec("1", "metal", VCPUS, 1024, root_gb=1)
REFUSED: dict[str, tuple[dict[str, Any], type[DriverError], str]] = {
    "volumes": ({"volumes": (VolumeConnection("v", "/v", 1),)}, DriverError, "have no volumes"),
    "swap": ({"flavor": replace(SMALL, swap_mb=64)}, DriverError, "have no swap"),
    "no image": ({"image": ImageSpec()}, DriverError, "there is none"),
    "a disk": ({"image": ImageSpec("installer", disk_format="qcow2")}, DriverError, "boot from discs"),
    "no disc": ({"image": ImageSpec("text", disk_format="iso")}, BuildAborted, "no disc that a machine could boot"),
    "too large": ({"flavor": replace(SMALL, vcpus=VCPUS + 1)}, DriverError, "take the server: 1 too small"),
    "too many ports": ({"ports": (port(1), port(2), port(3))}, DriverError, "1 with too few network cards"),
    "user data": ({"user_data": "a"}, BuildAborted, "not base64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_build_fails_with_one_clear_error_and_leaves_nothing(
    rack: Rack, spare: RedfishDriver, case: str
) -> None:
    values, kind, complaint = REFUSED[case]
    with pytest.raises(kind, match=complaint) as refused:
        spare.spawn(guest_of(str(uuid4()), **values), RecordedProgress())
    assert type(refused.value) is kind
    assert_clean(rack, spare)


@pytest.mark.parametrize("case", ["volumes", "swap", "no image", "a disk"])
def test_a_build_is_refused_before_anything_is_prepared(spare: RedfishDriver, case: str) -> None:
    values, kind, complaint = REFUSED[case]
    with pytest.raises(kind, match=complaint):
        spare.check_build(guest_of(str(uuid4()), **values))


def test_a_build_is_refused_where_no_free_machine_is_large_enough(spare: RedfishDriver) -> None:
    large, _, _ = REFUSED["too large"]
    with pytest.raises(DriverError, match="No free machine of this host is large enough"):
        spare.check_build(guest_of(str(uuid4()), **large))
    spare.spawn(guest_of(str(uuid4())), RecordedProgress())
    with pytest.raises(DriverError, match="No free machine of this host is large enough"):
        spare.check_build(guest_of(str(uuid4())))


def test_a_build_interrupted_at_any_place_leaves_nothing(rack: Rack, spare: RedfishDriver) -> None:
    counting, guest = RecordedProgress(), guest_of(str(uuid4()))
    spare.spawn(guest, counting)
    spare.destroy(guest.instance_uuid)
    assert len(counting.calls) >= 4
    for stop_at in range(1, len(counting.calls) + 1):
        with pytest.raises(StaleToken):
            spare.spawn(guest, RecordedProgress(stop_at))
        assert_clean(rack, spare)


@pytest.mark.parametrize("broken", ["InsertMedia", "ComputerSystem.Reset"])
def test_a_controller_that_fails_in_a_build_is_named_and_the_machine_is_clean_again(
    rack: Rack, spare: RedfishDriver, broken: str
) -> None:
    rack.between.breaks[broken] = 503
    try:
        with pytest.raises(DriverError, match=r"controller of machine m7 was asked to .* and answered with error 503"):
            spare.spawn(guest_of(str(uuid4())), RecordedProgress())
    finally:
        rack.between.breaks.clear()
    assert_clean(rack, spare)


def test_a_machine_that_cannot_be_cleaned_stays_assigned_until_it_can(rack: Rack, spare: RedfishDriver) -> None:
    guest = guest_of(str(uuid4()))
    spare.spawn(guest, RecordedProgress())
    rack.between.breaks["VirtualMedia/Floppy"] = 500
    try:
        with pytest.raises(DriverError, match="was asked to eject media and answered with error 500"):
            spare.destroy(guest.instance_uuid)
        assert spare.guests() == [GuestInfo(guest.instance_uuid, PowerState.NOSTATE)]
        with pytest.raises(GuestMissing):
            spare.power_on(guest)
        with pytest.raises(DriverError, match="can take the server: 1 taken"):
            spare.spawn(guest_of(str(uuid4())), RecordedProgress())
    finally:
        rack.between.breaks.clear()
    spare.destroy(guest.instance_uuid)
    assert_clean(rack, spare)


def test_media_that_an_eject_did_not_remove_are_detected(rack: Rack, options_of: Machines) -> None:
    guest = guest_of(str(uuid4()))
    with host(options_of(SPARE, options={"request_seconds": 2.0})) as driver:
        driver.spawn(guest, RecordedProgress())
        rack.between.breaks["EjectMedia"] = 500
        try:
            with pytest.raises(DriverError, match="Machine m7 did not let go of its media within 2 seconds"):
                driver.destroy(guest.instance_uuid)
        finally:
            rack.between.breaks.clear()
        driver.destroy(guest.instance_uuid)
        assert_clean(rack, driver)


def test_of_two_builds_for_the_last_machine_one_gets_it(spare: RedfishDriver) -> None:
    def spawn(uuid: str) -> str:
        try:
            spare.spawn(guest_of(uuid), RecordedProgress())
        except DriverError as error:
            return error.message
        return ""

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(spawn, [str(uuid4()) for _ in range(4)]))
    assert sorted(answers)[0] == ""
    assert set(answers[:]) == {"", "No machine of this host can take the server: 1 taken."}
    assert answers.count("") == 1
    assert len(spare.guests()) == 1


def test_a_machine_that_is_on_without_a_guest_is_left_alone(rack: Rack, options_of: Machines) -> None:
    rack.machines.set_power_state(uuid_of(SPARE), "On")
    try:
        with pytest.raises(DriverError, match="Machine m7 is on and has no guest; power it off to have it used"):
            RedfishDriver("rack-9", options_of(SPARE), open_image).start()
        with host(options_of(SPARE - 1, SPARE)) as driver:
            amount = driver.report().inventory["CUSTOM_BAREMETAL"]
            assert (amount.total, amount.reserved) == (2, 1)
            driver.spawn(guest_of(str(uuid4())), RecordedProgress())
            with pytest.raises(DriverError, match=r"1 out of service, 1 taken"):
                driver.spawn(guest_of(str(uuid4())), RecordedProgress())
        assert rack.state(SPARE)["power_state"] == "On"
    finally:
        rack.machines.set_power_state(uuid_of(SPARE), "ForceOff")


def test_every_drive_erases_itself_before_a_machine_is_free(rack: Rack, options_of: Machines) -> None:
    guest = guest_of(str(uuid4()))
    rack.between.erased.clear()
    with host(options_of(SPARE, options={"erase": "always"})) as driver:
        driver.spawn(guest, RecordedProgress())
        assert rack.between.erased == []
        rack.between.breaks["d1/Actions"] = 500
        try:
            with pytest.raises(DriverError, match="asked to erase its drives and answered with error 500"):
                driver.destroy(guest.instance_uuid)
            assert [found.power_state for found in driver.guests()] == [PowerState.NOSTATE]
        finally:
            rack.between.breaks.clear()
        rack.between.erased.clear()
        driver.destroy(guest.instance_uuid)
        assert [path.split("/")[-3] for path in rack.between.erased] == ["d0", "d1"]
        assert_clean(rack, driver)
