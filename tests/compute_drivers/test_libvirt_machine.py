"""Machines of the libvirt driver: parsed flavors and images, written disks, the reported NUMA cells."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import os_traits
import pycdlib
import pytest

from compute_drivers import config_drive
from compute_drivers.libvirt import devices_xml, domain_xml, host_inventory, machine_spec
from compute_drivers.libvirt.devices_xml import ConsoleSockets
from compute_drivers.metadata_files import metadata_files
from conductor.core.compute_driver import GuestSpec, NetworkPort, VolumeConnection
from conductor.core.errors import BuildAborted, DriverError, Invalid
from conductor.core.hardware.grants import Device, HardwareGrant
from conductor.core.hardware.request import InstanceCell, InstanceTopology
from conductor.core.hardware.topology import Pages
from conductor.core.request_spec import FlavorSpec, ImageSpec
from tests.guests import guest_of

UUID = "11111111-2222-3333-4444-555555555555"
PORT = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1", ("9.9.9.9",))
LINES = ConsoleSockets(Path("/s/guest.log"), Path("/s/guest.tty"), Path("/s/guest.vnc"))


def guest(specs: dict[str, str] | None = None, properties: dict[str, str] | None = None, **values: Any) -> GuestSpec:
    flavor = FlavorSpec("1", "m1", vcpus=4, memory_mb=512, root_gb=1, extra_specs=specs or {})
    image = ImageSpec(image_id="i", disk_format="raw", properties=properties or {})
    return guest_of(UUID, image, flavor=flavor, **values)


def described(spec: GuestSpec, grant: HardwareGrant | None = None) -> ElementTree.Element:
    machine = machine_spec.from_guest(spec)
    config = domain_xml.DomainConfig(
        host="h1",
        virt_type="qemu",
        spec=machine,
        disks=devices_xml.arrange_disks(
            [Path("/s/root.qcow2")], spec.volumes, bus=machine.disk_bus, limits=machine.limits
        ),
        consoles=LINES,
        grant=grant or HardwareGrant(),
        config_drive=Path("/s/config.iso"),
    )
    return ElementTree.fromstring(domain_xml.build(spec, config))


def _firmware(machine: str, *features: str) -> str:
    """Return a description of firmware, as packages have it."""
    return json.dumps({"targets": [{"architecture": "x86_64", "machines": [machine]}], "features": [*features]})


def attributes(domain: ElementTree.Element, path: str) -> list[dict[str, str]]:
    return [dict(found.attrib) for found in domain.findall(path)]


class TestTheMachine:
    def test_a_plain_guest(self) -> None:
        domain = described(guest())
        assert attributes(domain, "cpu/topology") == [{"sockets": "4", "cores": "1", "threads": "1"}]
        assert attributes(domain, "devices/disk/target") == [
            {"dev": "vda", "bus": "virtio"},
            {"dev": "hdd", "bus": "ide"},
        ]
        assert attributes(domain, "devices/serial/source") == [{"mode": "bind", "path": "/s/guest.tty"}]
        assert attributes(domain, "devices/serial/log") == [{"file": "/s/guest.log", "append": "on"}]
        assert attributes(domain, "devices/graphics/listen") == [{"type": "socket", "socket": "/s/guest.vnc"}]
        assert attributes(domain, "devices/video/model") == [{"type": "vga"}]
        assert attributes(domain, "devices/rng") == [{"model": "virtio"}]
        for absent in (
            "numatune",
            "cputune",
            "memoryBacking",
            "devices/watchdog",
            "devices/channel",
            "devices/hostdev",
        ):
            assert domain.find(absent) is None, absent

    @pytest.mark.parametrize(
        ("specs", "properties", "path", "found"),
        [
            ({"hw:cpu_sockets": "2", "hw:cpu_cores": "2"}, {}, "cpu/topology", ("2", "2", "1")),
            ({}, {"hw_cpu_threads": "2", "hw_cpu_max_sockets": "1"}, "cpu/topology", ("1", "2", "2")),
            ({"hw:watchdog_action": "reset"}, {}, "devices/watchdog", ("i6300esb", "reset")),
            (
                {"hw:watchdog_action": "reset"},
                {"hw_watchdog_action": "pause"},
                "devices/watchdog",
                ("i6300esb", "pause"),
            ),
            ({}, {"hw_qemu_guest_agent": "yes"}, "devices/channel/target", ("virtio", "org.qemu.guest_agent.0")),
            ({"hw_video:ram_max_mb": "64"}, {"hw_video_ram": "32"}, "devices/video/model", ("vga", "32768")),
            ({}, {"hw_video_model": "virtio"}, "devices/video/model", ("virtio",)),
            ({}, {"hw_pointer_model": "usbtablet"}, "devices/input", ("tablet", "virtio")),
            ({}, {"hw_boot_menu": "true"}, "os/bootmenu", ("yes",)),
        ],
    )
    def test_machines_follow_flavor_and_image(
        self, specs: dict[str, str], properties: dict[str, str], path: str, found: tuple[str, ...]
    ) -> None:
        (element,) = described(guest(specs, properties)).findall(path)
        assert tuple(element.attrib.values()) == found

    def test_optional_requests_are_ignored(self) -> None:
        domain = described(guest({"hw_rng:allowed": "false"}, {"hw_video_model": "none"}))
        assert domain.find("devices/rng") is None
        assert domain.find("devices/graphics") is None

    def test_disks_on_another_bus_with_limits(self) -> None:
        volume = VolumeConnection("v", "/s/v.raw", 1, device_name="/dev/sdc")
        specs = {"quota:disk_read_iops_sec": "100", "quota:disk_total_bytes_sec": "1048576"}
        domain = described(guest(specs, {"hw_disk_bus": "scsi", "hw_cdrom_bus": "sata"}, volumes=(volume,)))
        targets = [found["dev"] for found in attributes(domain, "devices/disk/target")]
        assert targets == ["sda", "sdc", "sdd"]
        tuned = [{limit.tag: limit.text for limit in disk} for disk in domain.findall("devices/disk/iotune")]
        assert tuned == [{"read_iops_sec": "100", "total_bytes_sec": "1048576"}] * 2

    @pytest.mark.parametrize(
        ("specs", "properties", "kind", "complaint"),
        [
            ({"hw:tpm_version": "2.0"}, {}, DriverError, "a TPM, for which hw:tpm_version=2.0"),
            ({"hw:mem_encryption": "True"}, {}, DriverError, "encrypted memory"),
            ({}, {"hw_machine_type": "q35"}, DriverError, "no machine type q35"),
            ({}, {"hw_video_model": "qxl"}, DriverError, "no video card qxl; it has vga"),
            ({}, {"hw_vif_model": "vmxnet3"}, DriverError, "no network card vmxnet3"),
            ({}, {"hw_disk_bus": "xen"}, DriverError, "no disk bus xen; it has virtio"),
            ({}, {"hw_video_ram": "8"}, BuildAborted, "hw_video_ram: 8 MB is more than the flavor's 0"),
            ({"quota:disk_read_iops_sec": "many"}, {}, BuildAborted, 'quota:disk_read_iops_sec: "many"'),
            ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1"}, {"hw_cpu_max_threads": "1"}, BuildAborted, "4 CPUs"),
        ],
    )
    def test_unsupported_requests_are_named(
        self, specs: dict[str, str], properties: dict[str, str], kind: type[Exception], complaint: str
    ) -> None:
        with pytest.raises(kind, match=complaint) as refused:
            machine_spec.from_guest(guest(specs, properties))
        assert type(refused.value) is kind

    def test_optional_secure_boot_is_left_out(self) -> None:
        assert machine_spec.from_guest(guest(properties={"os_secure_boot": "optional"})).firmware == "bios"

    def test_secure_boot_uses_q35_and_firmware_with_enrolled_keys(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine_spec, "FIRMWARE_DIR", tmp_path)
        for content in (
            "{",
            "[]",
            _firmware("pc-q35-*", "secure-boot"),
            _firmware("pc-i440fx-*", *machine_spec.SIGNED_ONLY),
        ):
            (tmp_path / "1.json").write_text(content)
            for specs, properties in (({"os:secure_boot": "required"}, {}), ({}, {"os_secure_boot": "required"})):
                with pytest.raises(DriverError, match=r"cannot give guests secure boot, for which os.secure_boot"):
                    machine_spec.from_guest(guest(specs, properties))
        (tmp_path / "1.json").write_text(_firmware("pc-q35-*", *machine_spec.SIGNED_ONLY))
        domain = described(guest({"os:secure_boot": "required"}, {"os_secure_boot": "optional"}))
        assert attributes(domain, "os/firmware/feature") == [
            {"enabled": "yes", "name": name} for name in ("enrolled-keys", "secure-boot")
        ]
        assert attributes(domain, "os/loader") == [{"secure": "yes"}]
        assert attributes(domain, "os/type") == [{"arch": "x86_64", "machine": "q35"}]
        assert attributes(domain, "features/smm") == [{"state": "on"}]
        assert [found["bus"] for found in attributes(domain, "devices/disk/target")] == ["virtio", "sata"]
        for properties, kind, complaint in (
            ({"hw_firmware_type": "bios"}, BuildAborted, "needs hw_firmware_type=uefi, and the image says bios"),
            ({"hw_machine_type": "pc"}, DriverError, "no machine type pc for secure boot; it has q35"),
            ({"hw_cdrom_bus": "ide"}, DriverError, "no CD-ROM bus ide; it has virtio, scsi, sata"),
        ):
            with pytest.raises(kind, match=complaint):
                machine_spec.from_guest(guest({"os:secure_boot": "required"}, properties))

    def test_firmware_that_is_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine_spec, "FIRMWARE_DIR", tmp_path)
        with pytest.raises(DriverError, match="no UEFI firmware"):
            machine_spec.from_guest(guest(properties={"hw_firmware_type": "uefi"}))
        (tmp_path / "60-edk2.json").write_text("{}")
        spec = guest(properties={"hw_firmware_type": "uefi"})
        assert described(spec).find("os").get("firmware") == "efi"  # type: ignore[union-attr]

    def test_cells_pins_pages_and_devices(self) -> None:
        cells = (
            InstanceCell(1, frozenset(), frozenset({0, 1}), 256, 2048, pins=((0, 8), (1, 9)), reserved=frozenset({10})),
            InstanceCell(0, frozenset({2, 3}), frozenset(), 256),
        )
        grant = HardwareGrant(InstanceTopology(cells), (Device("0000:3b:00.1"),))
        domain = described(guest(), grant)
        assert attributes(domain, "cputune/vcpupin") == [{"vcpu": "0", "cpuset": "8"}, {"vcpu": "1", "cpuset": "9"}]
        assert attributes(domain, "cputune/emulatorpin") == [{"cpuset": "10"}]
        assert attributes(domain, "memoryBacking/hugepages/page") == [{"size": "2048", "unit": "KiB", "nodeset": "0"}]
        assert attributes(domain, "numatune/memnode") == [
            {"cellid": "0", "mode": "strict", "nodeset": "1"},
            {"cellid": "1", "mode": "strict", "nodeset": "0"},
        ]
        assert [(cell["cpus"], cell["memory"]) for cell in attributes(domain, "cpu/numa/cell")] == [
            ("0-1", "262144"),
            ("2-3", "262144"),
        ]
        assert attributes(domain, "devices/hostdev/source/address") == [
            {"domain": "0x0000", "bus": "0x3b", "slot": "0x00", "function": "0x1"}
        ]


class TestTheDisc:
    def test_the_config_drive_has_the_metadata_of_the_guest(self) -> None:
        user_data = base64.b64encode(b"#!/bin/sh\necho hello\n").decode()
        spec = guest(
            ports=(PORT,), hostname="web-1", public_key="ssh-ed25519 AAAA ana", user_data=user_data, metadata={"a": "b"}
        )
        files = read(config_drive.build_iso(metadata_files(spec, "correct horse")))
        assert files == metadata_files(spec, "correct horse") | {
            name: data for name, data in files.items() if name.endswith("meta_data.json")
        }
        for folder in ("latest", "2018-08-27"):
            seed = json.loads(files[f"openstack/{folder}/meta_data.json"])
            assert seed["uuid"] == UUID
            assert (seed["hostname"], seed["meta"], seed["admin_pass"]) == ("web-1", {"a": "b"}, "correct horse")
            assert seed["public_keys"] == {"default": "ssh-ed25519 AAAA ana"}
            assert files[f"openstack/{folder}/user_data"] == b"#!/bin/sh\necho hello\n"
        network = json.loads(files["openstack/latest/network_data.json"])
        assert network["links"][0]["ethernet_mac_address"] == PORT.mac_address
        assert (network["networks"][0]["ip_address"], network["networks"][0]["netmask"]) == (
            "10.64.0.3",
            "255.255.240.0",
        )
        assert network["services"] == [{"type": "dns", "address": "9.9.9.9"}]
        amazon = json.loads(files["ec2/latest/meta-data.json"])
        assert (amazon["instance-id"], amazon["local-ipv4"]) == ("i-11111111", "10.64.0.3")
        assert amazon["public-keys"]["0"]["openssh-key"] == "ssh-ed25519 AAAA ana"
        assert files["ec2/2009-04-04/user-data"] == b"#!/bin/sh\necho hello\n"

    def test_a_config_drive_without_key_password_and_user_data_leaves_them_out(self) -> None:
        files = metadata_files(guest())
        seed = json.loads(files["openstack/latest/meta_data.json"])
        assert not {"admin_pass", "public_keys", "keys"} & seed.keys()
        assert not [name for name in files if name.endswith(("user_data", "user-data"))]

    def test_the_config_drive_has_the_label_that_cloud_init_looks_for(self) -> None:
        made = config_drive.build_iso(metadata_files(guest()))
        assert made[32808:32816] == b"config-2"

    def test_a_config_drive_is_private_and_invalid_user_data_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "config.iso"
        for _ in range(2):
            config_drive.write(path, guest(), "secret")
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(BuildAborted, match="user data are not base64"):
            config_drive.write(path, guest(user_data="a"))
        with pytest.raises(DriverError, match="could not be made: No such file"):
            config_drive.write(tmp_path / "nowhere" / "config.iso", guest())
        assert [found.name for found in tmp_path.iterdir()] == ["config.iso"]


def read(disc: bytes) -> dict[str, bytes]:
    """Files by their long names."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(disc))
    found = {}
    for folder, _, names in iso.walk(rr_path="/"):
        for name in names:
            data = io.BytesIO()
            iso.get_file_from_iso_fp(data, rr_path=f"{folder.rstrip('/')}/{name}")
            found[f"{folder.strip('/')}/{name}"] = data.getvalue()
    return found


class TestTheHost:
    def make(self, folder: Path, text: str) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text(text)

    def machine(self, tmp_path: Path) -> tuple[Path, Path]:
        """Return a machine with two cells of two cores with two threads each; one cell has huge pages."""
        nodes, cpus = tmp_path / "node", tmp_path / "cpu"
        for node, listed in enumerate(("0-1,4-5", "2-3,6-7")):
            self.make(nodes / f"node{node}" / "cpulist", listed)
            self.make(nodes / f"node{node}" / "meminfo", f"Node {node} MemTotal:       {4096 << 10} kB\n")
            self.make(nodes / f"node{node}" / "hugepages" / "hugepages-2048kB" / "nr_hugepages", "512" if node else "0")
        for cpu in range(8):
            topology = cpus / f"cpu{cpu}" / "topology"
            self.make(topology / "thread_siblings_list", f"{cpu % 4},{cpu % 4 + 4}")
            self.make(topology / "physical_package_id", str(cpu % 4 // 2))
        return nodes, cpus

    def test_the_numa_cells_of_the_machine_are_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
        nodes, cpus = self.machine(tmp_path)
        first, second = host_inventory.numa_cells("3,7", nodes=nodes, cpus=cpus)
        assert (first.cpus, first.pcpus, first.socket) == (frozenset({0, 1, 4, 5}), frozenset(), 0)
        assert (second.cpus, second.pcpus) == (frozenset({2, 6}), frozenset({3, 7}))
        assert second.siblings == (frozenset({2, 6}), frozenset({3, 7}))
        assert first.memory_mb == second.memory_mb == 4096
        assert first.pages == (Pages(4, 1 << 20),)
        assert second.pages == (Pages(4, (4096 - 1024) * 256), Pages(2048, 512))
        with pytest.raises(Invalid, match=r"libvirt\.pinned_cpus: this machine has no processors 8-9"):
            host_inventory.numa_cells("7-9", nodes=nodes, cpus=cpus)

    def test_a_process_reports_only_the_processors_that_it_may_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4})
        nodes, cpus = self.machine(tmp_path)
        assert [cell.cpus for cell in host_inventory.numa_cells(nodes=nodes, cpus=cpus)] == [
            frozenset({0, 4}),
            frozenset(),
        ]

    def test_devices_are_offered_by_address_or_kind(self, tmp_path: Path) -> None:
        for address, product in (("0000:3b:00.0", "1521"), ("0000:3b:00.1", "1521"), ("0000:5e:00.0", "10de")):
            for name, text in (("vendor", "0x8086"), ("device", f"0x{product}"), ("numa_node", "-1")):
                self.make(tmp_path / address / name, text)
        (tmp_path / "0000:3b:00.1" / "physfn").symlink_to(tmp_path / "0000:3b:00.0")
        found = host_inventory.pci_devices("8086:1521", tmp_path)
        assert [(one.address, one.parent, one.tags["dev_type"]) for one in found] == [
            ("0000:3b:00.0", "", "type-PCI"),
            ("0000:3b:00.1", "0000:3b:00.0", "type-VF"),
        ]
        assert [one.address for one in host_inventory.pci_devices(" 0000:5E:00.0 ", tmp_path)] == ["0000:5e:00.0"]
        assert host_inventory.pci_devices("", tmp_path) == ()
        with pytest.raises(Invalid, match=r"libvirt\.pci_devices: 'gpu' is neither"):
            host_inventory.parse_pci_devices("gpu")

    def test_reported_traits_are_standard_or_custom(self) -> None:
        assert sorted(host_inventory.TRAITS - set(os_traits.get_traits())) == []
