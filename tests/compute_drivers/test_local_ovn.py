"""OVN for one machine: it answers on its bridge, removes everything at its end, and starts once per machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_drivers import taps
from compute_drivers.ovn_net.integration_bridge import IntegrationBridge
from compute_drivers.ovn_net.local_ovn import CannotStart, LocalOvn
from conductor.core.errors import DriverError
from tests.compute_drivers.net_space import devices, net_space
from tests.waiting import wait_until

OWN_DEVICES = ["br-int", "br-novella", "ovs-netdev"]


@pytest.fixture(autouse=True)
def machine() -> Iterator[str]:
    """A network namespace as the machine."""
    with net_space() as name:
        yield name


def ovn_in(folder: Path) -> LocalOvn:
    return LocalOvn(folder / "ovn", "h1", "machine", "198.18.0.1/20")


def nb(ovn: LocalOvn, *words: str) -> str:
    return subprocess.check_output(["ovn-nbctl", f"--db={ovn.northbound}", "--timeout=60", *words], text=True)


def pids(ovn: LocalOvn) -> dict[str, int]:
    return {f"{path.parent.name}/{path.stem}": int(path.read_text()) for path in ovn.folder.glob("*/*.pid")}


def runs(pid: int) -> bool:
    """Whether the process exists; one that ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def add_router(ovn: LocalOvn) -> None:
    """Add a router on the external network."""
    nb(ovn, "ls-add", "net", "--", "lsp-add", "net", "out", "--", "lsp-set-type", "out", "localnet")
    nb(ovn, "lsp-set-addresses", "out", "unknown", "--", "lsp-set-options", "out", "network_name=machine")
    nb(ovn, "lr-add", "r", "--", "lrp-add", "r", "lrp", "fa:16:3e:00:00:01", "198.18.0.10/20")
    nb(ovn, "lsp-add", "net", "in", "--", "lsp-set-type", "in", "router", "--", "lsp-set-addresses", "in", "router")
    nb(ovn, "lsp-set-options", "in", "router-port=lrp", "--", "lrp-set-gateway-chassis", "lrp", "h1")


def await_router() -> None:
    ping = ["busybox", "ping", "-c", "1", "-W", "1", "198.18.0.10"]
    wait_until("the router answers", lambda: subprocess.run(ping, capture_output=True, check=False).returncode == 0)


def test_a_router_answers_the_machine_and_the_end_removes_everything(tmp_path: Path) -> None:
    ovn = ovn_in(tmp_path)
    lock = ovn.start()
    run_dir = Path(ovn.host_options["ovs_run_dir"])
    assert IntegrationBridge("h1", run_dir, Path(ovn.host_options["ovn_run_dir"])).missing() == ""
    assert devices() == OWN_DEVICES
    add_router(ovn)
    await_router()

    started = pids(ovn)
    assert len(started) == 6
    ovn.stop(lock)
    assert [name for name, pid in started.items() if runs(pid)] == []
    assert (devices(), ovn.folder.exists()) == ([], False)


def test_daemons_that_were_killed_are_started_again(tmp_path: Path) -> None:
    ovn = ovn_in(tmp_path)
    lock = ovn.start()
    add_router(ovn)
    await_router()
    first = pids(ovn)
    ovn.repair()
    assert pids(ovn) == first

    os.kill(first["host/ovs-vswitchd"], signal.SIGKILL)
    wait_until("the switch has ended", lambda: not runs(first["host/ovs-vswitchd"]))
    ovn.repair()
    assert {name for name, pid in pids(ovn).items() if pid != first[name]} == {
        "host/ovs-vswitchd",
        "host/ovn-controller",
    }
    await_router()

    before = pids(ovn)
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    wait_until("all have ended", lambda: not any(map(runs, before.values())))
    ovn.repair()
    assert all(runs(pid) for pid in pids(ovn).values())
    await_router()
    ovn.stop(lock)
    assert devices() == []


def test_the_next_start_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    ovn = ovn_in(tmp_path)
    ovn.start().close()  # the lock ends with its process
    first = pids(ovn)
    os.kill(first["host/ovs-vswitchd"], signal.SIGKILL)  # its devices stay
    os.kill(first["nb/ovsdb-server"], signal.SIGKILL)
    assert devices() == OWN_DEVICES

    lock = ovn.start()
    assert [name for name, pid in first.items() if runs(pid)] == []
    assert all(runs(pid) for pid in pids(ovn).values())
    assert nb(ovn, "show") == ""
    ovn.stop(lock)
    assert devices() == []


def test_devices_of_another_folder_are_removed_after_their_switch_has_ended(tmp_path: Path) -> None:
    gone, ovn = ovn_in(tmp_path / "gone"), ovn_in(tmp_path)
    gone.start().close()
    ended = pids(gone)
    for pid in ended.values():
        os.kill(pid, signal.SIGKILL)
    wait_until("all have ended", lambda: not any(map(runs, ended.values())))
    assert devices() == OWN_DEVICES
    ovn.stop(ovn.start())
    assert devices() == []


def test_a_process_that_reuses_the_pid_of_a_daemon_is_not_killed(tmp_path: Path) -> None:
    ovn = ovn_in(tmp_path)
    other = subprocess.Popen(["sleep", "600"])
    folder = ovn.folder / "host"
    folder.mkdir(parents=True)
    (folder / "ovn-controller.pid").write_text(f"{other.pid}\n")
    ovn.stop(ovn.start())
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_second_local_ovn_is_refused_and_the_first_keeps_working(tmp_path: Path) -> None:
    ovn = ovn_in(tmp_path / "first")
    lock = ovn.start()
    with pytest.raises(CannotStart, match="another Novella on this machine has it"):
        ovn_in(tmp_path / "second").start()
    lock.close()
    with pytest.raises(CannotStart, match=r"in use on this machine already \(device br-int, br-novella, ovs-netdev"):
        ovn_in(tmp_path / "second").start()
    assert all(runs(pid) for pid in pids(ovn).values())
    ovn.stop(lock)


@pytest.mark.parametrize(
    ("address", "conflict"), [("198.18.7.1/24", "198.18.7.0/24"), ("198.0.0.1/8", "198.0.0.0/8")], ids=str
)
def test_a_start_is_refused_if_the_machine_uses_the_addresses(tmp_path: Path, address: str, conflict: str) -> None:
    subprocess.run(["ip", "link", "add", "lan", "type", "bridge"], check=True)
    subprocess.run(["ip", "address", "add", address, "dev", "lan"], check=True)
    subprocess.run(["ip", "link", "set", "lan", "up"], check=True)
    with pytest.raises(CannotStart, match=f"a route to {conflict}, which overlaps 198.18.0.0/20"):
        ovn_in(tmp_path).start()
    assert devices() == ["lan"]
    assert not (tmp_path / "ovn").exists()


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name.startswith("ovn-") else name)
    with pytest.raises(CannotStart, match=r"^not installed here: ovn-central, ovn-common, ovn-host$"):
        ovn_in(tmp_path).start()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotStart, match="only root may change the network of this machine"):
        ovn_in(tmp_path).start()


def test_a_failed_start_removes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taps, "start", _fails)
    with pytest.raises(CannotStart, match=r"^no bridge$"):
        ovn_in(tmp_path).start()
    assert devices() == []
    assert not (tmp_path / "ovn").exists()


def _fails(*_: object, **__: object) -> None:
    raise DriverError("no bridge.")
