"""The parts of the libvirt driver that need no hypervisor: choices, words, XML, images, paths."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_drivers.image_cache import ImageCache
from compute_drivers.libvirt import devices_xml, domain_xml, embedded, host_inventory, machine_spec, qemu_network
from compute_drivers.libvirt.capability import choose_virt_type, missing_packages, probe
from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.errors import BuildAborted, DriverError, StaleToken
from conductor.core.request_spec import FlavorSpec, ImageSpec
from tests.guests import ImageShelf, guest_of, image_of
from tests.waiting import WAIT_SECONDS

INTEL = "processor : 0\nflags\t\t: fpu vme vmx sse\n"
AMD = "processor : 0\nflags\t\t: fpu svm sse\n"
NEITHER = "processor : 0\nflags\t\t: fpu svmx notvmx sse\nmodel name : vmx svm\n"
SECTIONS = {
    *("name", "uuid", "metadata", "memory", "vcpu", "os", "features", "cpu", "clock"),
    *("on_poweroff", "on_reboot", "on_crash", "devices", "commandline"),
}
UUID = "4f1c8e9a-0000-4000-8000-000000000001"


class TestVirtType:
    @pytest.mark.parametrize(
        ("wanted", "cpu_info", "can_open_kvm", "chosen"),
        [
            ("auto", INTEL, True, "kvm"),
            ("auto", AMD, True, "kvm"),
            ("auto", INTEL, False, "qemu"),
            ("auto", NEITHER, True, "qemu"),  # a device that opens proves nothing
            ("auto", "", True, "qemu"),
            ("kvm", NEITHER, False, "kvm"),  # the operator's value wins
            ("qemu", INTEL, True, "qemu"),
        ],
    )
    def test_the_choice_of_the_virt_type(self, wanted: str, cpu_info: str, can_open_kvm: bool, chosen: str) -> None:
        assert choose_virt_type(wanted, cpu_info=cpu_info, can_open_kvm=can_open_kvm).name == chosen

    def test_the_reason_is_shown(self) -> None:
        assert choose_virt_type("auto", cpu_info=NEITHER, can_open_kvm=True).reason == (
            "the processor offers neither vmx nor svm"
        )
        assert choose_virt_type("auto", cpu_info=AMD, can_open_kvm=False).reason == "/dev/kvm cannot be opened"
        assert choose_virt_type("auto", cpu_info=AMD, can_open_kvm=True).reason == "the processor offers svm"


class TestCapability:
    def test_the_probe_is_one_sentence_and_loads_no_libvirt(self) -> None:
        program = (
            "import sys\n"
            "import compute_drivers.plugin\n"
            "from compute_drivers.libvirt.capability import probe\n"
            "found = probe()\n"
            "assert 'libvirt' not in sys.modules and 'libvirtmod' not in sys.modules\n"
            "print(found.reason)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        (line,) = done.stdout.splitlines()
        assert line.endswith(".")

    def test_missing_packages_are_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert {"qemu-system-x86", "qemu-utils"} <= set(missing_packages())
        found = probe()
        assert (found.is_usable, found.virt_type) == (False, "")
        assert "qemu-system-x86" in found.reason


def port(**values: str) -> NetworkPort:
    fields = {
        "port_uuid": "p",
        "network_name": "private",
        "mac_address": "fa:16:3e:00:00:01",
        "ip_address": "10.64.0.5",
        "cidr": "10.64.0.0/20",
        "gateway_ip": "10.64.0.1",
    } | values
    return NetworkPort(prefix_length=0, **fields)


def words_of(backend: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in backend.split(",")[1:])


class TestUserNetwork:
    def test_a_card_and_its_network(self) -> None:
        own = "net=10.64.0.0/20,host=10.64.0.1,dhcpstart=10.64.0.5,dns=10.64.15.254,hostname=web-1"
        assert qemu_network.arguments([port()], "web-1") == [
            "-netdev",
            f"user,id=port-p,restrict=on,ipv6=off,{own}",
            "-device",
            "virtio-net-pci,netdev=port-p,id=card-p,mac=fa:16:3e:00:00:01,bus=pci.0,addr=0x10",
        ]

    def test_a_guest_without_ports_has_no_arguments(self) -> None:
        assert qemu_network.arguments([], "web-1") == []

    def test_a_port_without_an_address_has_an_isolated_backend(self) -> None:
        words = qemu_network.arguments([port(ip_address="", cidr="")], "web-1")
        assert words[1] == "hubport,id=port-p,hubid=0"

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            ({"mac_address": "fa:16,id=evil"}, "no usable MAC address"),
            ({"port_uuid": "p,id=evil"}, "no usable id"),
            ({"ip_address": "fd00::5", "cidr": "fd00::/64"}, "guests on this host have IPv4 only"),
            ({"ip_address": "10.65.0.5"}, "outside of 10.64.0.0/20"),
            ({"cidr": "10.64.0.0/20,id=evil"}, "guests on this host have IPv4 only"),
            ({"ip_address": "10.0.0.1", "cidr": "10.0.0.0/30", "gateway_ip": ""}, "too small"),
        ],
    )
    def test_ports_that_qemu_cannot_serve_abort_the_build(self, values: dict[str, str], complaint: str) -> None:
        with pytest.raises(BuildAborted, match=re.escape(complaint)):
            qemu_network.arguments([port(**values)], "web-1")

    def test_sixteen_ports_are_too_many(self) -> None:
        assert len(qemu_network.arguments([port()] * 15, "web-1")) == 60
        with pytest.raises(BuildAborted, match="at most 15 ports, not 16"):
            qemu_network.arguments([port()] * 16, "web-1")

    def test_a_tap_has_no_virtio_headers(self) -> None:
        ports = [port(), port(port_uuid="q", ip_address="")]
        words = qemu_network.arguments(ports, "web-1", backends=lambda _: qemu_network.Tap("no1"))
        assert words[1] == "tap,id=port-p,ifname=no1,script=no,downscript=no,vnet_hdr=off"
        assert words[5] == "hubport,id=port-q,hubid=1"

    def test_a_guest_without_a_network_has_cards_that_lead_nowhere(self) -> None:
        ports = [port(), port(port_uuid="q", ip_address="fd00::5", cidr="fd00::/64")]
        words = qemu_network.arguments(ports, "web-1", backends=lambda _: qemu_network.OwnNetwork.NONE)
        assert [words[1], words[5]] == ["hubport,id=port-p,hubid=0", "hubport,id=port-q,hubid=1"]

    @given(st.text())
    def test_a_host_name_adds_no_words(self, hostname: str) -> None:
        words = words_of(qemu_network.arguments([port()], hostname)[1])
        assert sorted(words) == ["dhcpstart", "dns", "host", "hostname", "id", "ipv6", "net", "restrict"]
        assert re.fullmatch(r"[A-Za-z0-9.-]+", words["hostname"])

    @given(st.data())
    def test_gateway_name_server_and_guest_never_share_an_address(self, data: st.DataObject) -> None:
        network = ipaddress.IPv4Network(
            (data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(8, 29))), strict=False
        )
        places = st.integers(int(network.network_address) + 1, int(network.broadcast_address) - 1)
        address, gateway = (str(ipaddress.IPv4Address(data.draw(places))) for _ in range(2))
        has_gateway = data.draw(st.booleans())
        given_port = port(cidr=str(network), ip_address=address, gateway_ip=gateway if has_gateway else "")
        words = words_of(qemu_network.arguments([given_port], "web-1")[1])
        assert words["dhcpstart"] == address
        if has_gateway and gateway != address:
            assert words["host"] == gateway
        taken = [words["host"], words["dns"], words["dhcpstart"]]
        assert len(set(taken)) == 3
        assert all(ipaddress.IPv4Address(one) in network for one in taken)


def built(guest: GuestSpec, **values: object) -> ElementTree.Element:
    fields = {
        "host": "h1",
        "virt_type": "qemu",
        "spec": machine_spec.from_guest(guest),
        "disks": devices_xml.arrange_disks([Path("/s/root.qcow2")], []),
        "consoles": devices_xml.ConsoleSockets(Path("/s/c.log"), Path("/s/c.tty"), Path("/s/c.vnc")),
    } | values
    return ElementTree.fromstring(domain_xml.build(guest, domain_xml.DomainConfig(**fields)))  # type: ignore[arg-type]


class TestDomainXml:
    GUEST = guest_of(UUID, ImageSpec(image_id="i"), flavor=FlavorSpec("1", "tiny", vcpus=2, memory_mb=256))

    def test_size_name_and_mark(self) -> None:
        domain = built(self.GUEST)
        assert domain.get("type") == "qemu"
        assert domain.findtext("name") == f"novella-{UUID}"
        assert domain.findtext("uuid") == UUID
        assert (domain.findtext("memory"), domain.find("memory").get("unit")) == ("256", "MiB")  # type: ignore[union-attr]
        assert domain.findtext("vcpu") == "2"
        mark = domain.find(f"metadata/{{{domain_xml.NAMESPACE}}}instance")
        assert mark is not None
        assert [item.text for item in mark] == [UUID, "web-1", "5" * 32, "h1", "root"]

    def test_disks_in_order(self) -> None:
        domain = built(self.GUEST, disks=devices_xml.arrange_disks([Path("/s/root.qcow2"), Path("/s/swap.qcow2")], []))
        found = [
            (disk.find("source").get("file"), disk.find("target").get("dev"))  # type: ignore[union-attr]
            for disk in domain.findall("devices/disk")
        ]
        assert found == [("/s/root.qcow2", "vda"), ("/s/swap.qcow2", "vdb")]

    def test_the_console_is_appended_to(self) -> None:
        log = built(self.GUEST).find("devices/serial/log")
        assert log is not None
        assert log.attrib == {"file": "/s/c.log", "append": "on"}

    def test_without_a_kernel_the_disk_is_booted(self) -> None:
        boot = built(self.GUEST).find("os")
        assert boot is not None
        assert [item.tag for item in boot] == ["type", "boot"]

    @pytest.mark.parametrize(
        ("properties", "line"),
        [
            ({}, "console=ttyS0 no_timer_check panic=-1"),
            ({"os_command_line": "console=ttyS0 quiet"}, "console=ttyS0 quiet"),
        ],
    )
    def test_a_kernel_is_started_with_its_command_line(self, properties: dict[str, str], line: str) -> None:
        guest = guest_of(UUID, ImageSpec(image_id="i", properties=properties))
        boot = built(guest, kernel=Path("/s/k"), ramdisk=Path("/s/r")).find("os")
        assert boot is not None
        assert [(item.tag, item.text) for item in boot] == [
            ("type", "hvm"),
            ("kernel", "/s/k"),
            ("initrd", "/s/r"),
            ("cmdline", line),
        ]

    def test_kvm_shows_the_host_processor_and_emulation_bounds_its_cache(self) -> None:
        kvm, qemu = built(self.GUEST, virt_type="kvm"), built(self.GUEST)
        assert kvm.find("cpu[@mode='host-passthrough']") is not None
        assert kvm.find("features/tcg") is None
        assert qemu.find("cpu[@mode]") is None
        assert qemu.findtext("features/tcg/tb-cache") == "64"

    @given(st.text(), st.lists(st.text()))
    def test_texts_are_escaped_in_xml(self, name: str, words: list[str]) -> None:
        guest = guest_of(UUID, ImageSpec(image_id="i"), name=name)
        domain = built(guest, qemu_arguments=words)
        tags = {item.tag.rpartition("}")[2] for item in domain}
        assert tags <= SECTIONS
        assert len(domain.findall(f"{{{domain_xml.QEMU_NAMESPACE}}}commandline/*")) == len(words)


class TestImageCache:
    @pytest.fixture
    def shelf(self) -> ImageShelf:
        return ImageShelf()

    @pytest.fixture
    def cache(self, tmp_path: Path, shelf: ImageShelf) -> ImageCache:
        cache = ImageCache(tmp_path / "images", shelf.open)
        cache.prepare()
        return cache

    def put(self, shelf: ImageShelf, data: bytes) -> ImageSpec:
        image = image_of(str(uuid4()), data)
        shelf.images[image.image_id] = data
        return image

    def test_fetched_once_even_by_many_threads(self, cache: ImageCache, shelf: ImageShelf) -> None:
        image = self.put(shelf, os.urandom(3 << 20))
        threads = [threading.Thread(target=cache.fetch, args=(image, lambda share: None)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=WAIT_SECONDS)
        assert shelf.opened == {image.image_id: 1}
        assert cache.fetch(image, lambda share: None).read_bytes() == shelf.images[image.image_id]

    def test_a_file_of_the_wrong_length_is_fetched_again(self, cache: ImageCache, shelf: ImageShelf) -> None:
        image = self.put(shelf, b"whole")
        path = cache.fetch(image, lambda share: None)
        path.write_bytes(b"who")
        assert cache.fetch(image, lambda share: None).read_bytes() == b"whole"

    def test_shares_rise_to_one(self, cache: ImageCache, shelf: ImageShelf) -> None:
        shares: list[float | None] = []
        cache.fetch(self.put(shelf, bytes(5 << 19)), shares.append)
        assert shares == [0.4, 0.8, 1.0]

    def test_an_interrupted_fetch_leaves_no_file(self, cache: ImageCache, shelf: ImageShelf, tmp_path: Path) -> None:
        def stop(share: float | None) -> None:
            raise StaleToken()

        with pytest.raises(StaleToken):
            cache.fetch(self.put(shelf, b"data"), stop)
        assert list((tmp_path / "images").iterdir()) == []

    def test_partial_downloads_of_a_killed_process_are_removed(
        self, cache: ImageCache, shelf: ImageShelf, tmp_path: Path
    ) -> None:
        image = self.put(shelf, b"data")
        kept = cache.fetch(image, lambda share: None)
        (tmp_path / "images" / f"{image.image_id}.99-0.part").write_bytes(b"da")
        cache.prepare()
        assert list((tmp_path / "images").iterdir()) == [kept]

    def test_a_disk_that_takes_nothing_is_the_host_s_fault(
        self, shelf: ImageShelf, cache: ImageCache, tmp_path: Path
    ) -> None:
        (tmp_path / "images").rmdir()
        with pytest.raises(DriverError) as refused:
            cache.fetch(self.put(shelf, b"data"), lambda share: None)
        assert not isinstance(refused.value, BuildAborted)
        assert str(tmp_path) not in refused.value.message


class TestShortPath:
    def test_a_short_path_stays(self, tmp_path: Path) -> None:
        directory = Path("/tmp") / f"n{os.getpid()}"
        assert embedded.short_path(directory) == directory

    def test_a_long_one_gets_a_link_that_is_the_same_each_time(self, tmp_path: Path) -> None:
        directory = tmp_path / ("long" * 12)
        directory.mkdir()
        link = embedded.short_path(directory)
        assert len(str(link)) <= embedded.LONGEST_ROOT
        assert link.resolve() == directory
        assert embedded.short_path(directory) == link
        assert stat.S_IMODE(link.parent.stat().st_mode) & 0o022 == 0
        link.unlink()
        link.symlink_to(tmp_path)  # an operator's mistake is repaired
        assert embedded.short_path(directory).resolve() == directory
        link.unlink()

    def test_the_settings_of_the_embedded_hypervisor(self, tmp_path: Path) -> None:
        uri = embedded.prepare(tmp_path / "root")
        lines = (tmp_path / "root" / "etc" / "qemu.conf").read_text().splitlines()
        assert 'stdio_handler = "file"' in lines
        assert "seccomp_sandbox = 1" in lines
        assert Path(uri.removeprefix("qemu:///embed?root=")).resolve() == tmp_path / "root"


def test_the_inventory_is_that_of_this_machine(tmp_path: Path) -> None:
    found = host_inventory.read_totals(tmp_path)
    assert found.vcpus == len(os.sched_getaffinity(0))
    assert 0 < found.free_disk_gb + 1 <= found.disk_gb + 1
    assert found.memory_mb > 100
    assert found.cpu_info["topology"] == {"cores": found.vcpus}
