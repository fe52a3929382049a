"""Installs the Debian packages that real guests and the test suite need, and links libvirt's bindings into `.venv`.

`run` continues without them, but without real hosts, or with QEMU's user network for their guests; `test` fails,
because skipped tests prove nothing.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from portal.environment import Environment, InvalidEnvironment, current
from tools import debian

PROJECT_DIR = Path(__file__).resolve().parent.parent
# libvirt, opened by root, looks up this account before it reads any configuration. Debian creates it with the daemon's
# package, which is not needed.
ACCOUNT = "libvirt-qemu"
DEBIAN_MODULES = Path("/usr/lib/python3/dist-packages")
REAL_HOST = (
    "qemu-system-x86",  # runs the guests
    "qemu-utils",  # qemu-img creates their disks
    "libvirt-daemon-driver-qemu",  # the driver that this process opens; no daemon
    "libvirt-daemon",  # for the program that saves the memory of suspended guests; the daemon is never started
    "python3-libvirt",
)
FIRMWARE = ("ovmf",)  # starts guests with secure boot
CONTAINERS = (
    "runc",  # runs them
    "iproute2",  # configures their cards
    "e2fsprogs",  # creates and enlarges their disks
    "busybox-static",  # the whole content of the test suite's containers
)
BROWSER = (
    "chromium-headless-shell",  # headless only: half the processor time
    "fonts-dejavu-core",  # without a font a browser renders no text
    "libatomic1",  # needed by the Node.js inside Playwright
)
# Each test run starts its own servers; the packages' never run.
SERVICES = ("postgresql", "rabbitmq-server", "redis-server", "zookeeper", "etcd-server")
OVN = (
    "openvswitch-switch",
    "ovn-central",
    "ovn-host",
    "ethtool",  # has the kernel fill in checksums of frames that enter Open vSwitch
)
# Services of these packages: `novella up` starts the programs itself.
OVN_SERVICES = ("openvswitch-switch", "ovn-central", "ovn-host")
PROFILES = {"run": REAL_HOST, "test": (*REAL_HOST, *FIRMWARE, *CONTAINERS, *BROWSER, *SERVICES, *OVN)}
BINDING = re.compile(r"libvirt(_qemu|aio)?\.py|libvirtmod(_qemu)?\.cpython-(?P<tag>\d+)-.*\.so")


class CannotLink(Exception):
    """libvirt's bindings cannot be used from `.venv`; one line with the reason."""


def provide(packages: Sequence[str]) -> str:
    """Install the missing packages; returns a line about the result. Raises debian.CannotInstall."""
    wanted = debian.missing(packages)
    if not wanted:
        return "system packages: all there"
    print(f"system packages: installing {' '.join(wanted)}; this can take some minutes", flush=True)
    with debian.nothing_starts() if set(wanted) & {*SERVICES, *OVN} else nullcontext():
        debian.install(wanted)
    debian.disable([service for service in OVN_SERVICES if service in wanted])
    return f"system packages: installed {' '.join(wanted)}"


def provide_ovn(environment: Environment) -> None:
    """Install OVN where `novella up` may start it: there it is root, and the settings do not rule it out."""
    if os.geteuid() != 0 or environment.local_network == "user" or environment.ovn_northbound:
        return
    try:
        provide(OVN)
    except debian.CannotInstall as error:
        print(f"system packages: guests on this machine will have QEMU's user network: {error}", file=sys.stderr)


def link_bindings(modules_dir: Path, site_packages: Path) -> list[Path]:
    """Make Debian's libvirt modules importable from the environment of `site_packages`; returns the links.

    The bindings are compiled for one Python: raises CannotLink for an environment with another one.
    """
    found = {path: match for path in sorted(modules_dir.glob("libvirt*")) if (match := BINDING.fullmatch(path.name))}
    tag = site_packages.parent.name.removeprefix("python").replace(".", "")
    tags = {match["tag"] for match in found.values()} - {None}
    if tag not in tags:
        theirs = ", ".join(sorted(tags)) or "no Python"
        raise CannotLink(f"libvirt's bindings here are for {theirs}, this environment is for {tag}")
    links = []
    for path in found:
        link = site_packages / path.name
        if link.resolve() != path.resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        links.append(link)
    return links


def provide_account() -> None:
    """Create the account that libvirt requires when root opens it; for other users it does not."""
    if os.geteuid() != 0 or ACCOUNT in {entry.pw_name for entry in pwd.getpwall()}:
        return
    home = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    made = subprocess.run(["useradd", "--system", "--user-group", *home, ACCOUNT], capture_output=True, check=False)
    if made.returncode:
        raise debian.CannotInstall(f"cannot make the account {ACCOUNT}: {made.stderr.decode().strip()}")


def _site_packages() -> Path:
    return next((PROJECT_DIR / ".venv" / "lib").glob("python3*")) / "site-packages"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PROFILES:
        print("usage: python3 -m tools.system_packages run|test", file=sys.stderr)
        return 2
    profile = arguments[0]
    try:
        if profile == "run" and current().real_host == "off":
            return 0
        line = provide(PROFILES[profile])
        if profile == "run":
            provide_ovn(current())
        provide_account()
        link_bindings(DEBIAN_MODULES, _site_packages())
    except InvalidEnvironment as error:
        print(error, file=sys.stderr)
        return 2
    except (debian.CannotInstall, CannotLink) as error:
        consequence = "there will be no real host" if profile == "run" else "the test suite cannot run"
        print(f"system packages: {consequence}: {error}", file=sys.stderr)
        return 0 if profile == "run" else 1
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
