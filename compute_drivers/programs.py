"""Runs programs of the host with a timeout. A failure becomes a DriverError whose message has no paths of the host."""

from __future__ import annotations

import subprocess

from conductor.core.errors import DriverError

SECONDS = 60.0
# Debian's packages of the programs that drivers run.
PACKAGES = {
    "runc": "runc",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-appctl": "openvswitch-common",
    "ovsdb-tool": "openvswitch-common",
    "ovsdb-server": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "ovn-nbctl": "ovn-common",
    "ovn-northd": "ovn-central",
    "ovn-controller": "ovn-host",
    "nsenter": "util-linux",
    "mount": "mount",
    "umount": "mount",
    "mke2fs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "resize2fs": "e2fsprogs",
    "tar": "tar",
    "cp": "coreutils",
    "sync": "coreutils",
}


def run(*words: str, given: bytes = b"", seconds: float = SECONDS) -> subprocess.CompletedProcess[bytes]:
    """Run a program and return its result, also if it fails.

    Raises DriverError if it is not installed or does not end in time.
    """
    try:
        return subprocess.run(words, input=given, capture_output=True, timeout=seconds, check=False)
    except OSError as error:
        raise start_error(words[0], error) from None
    except subprocess.TimeoutExpired:
        raise DriverError(f"The program {words[0]} did not end within {seconds:g} seconds.") from None


def check_output(message: str, *words: str, given: bytes = b"", seconds: float = SECONDS) -> bytes:
    """Run a program and return its output. Raises DriverError with the message "<message>: <cause>." if it fails."""
    done = run(*words, given=given, seconds=seconds)
    if done.returncode:
        raise DriverError(f"{message}: {last_line(done.stderr)}.")
    return done.stdout


def start_error(program: str, error: OSError) -> DriverError:
    """Return the error for a program that could not be started."""
    if isinstance(error, FileNotFoundError):
        package = PACKAGES.get(program)
        advice = f": apt-get install {package}" if package else ""
        return DriverError(f"The program {program} is not installed on this host{advice}.")
    return DriverError(f"The program {program} cannot be started on this host: {error.strerror}.")


def last_line(output: bytes) -> str:
    """Return the last line of a program's error output, without its full stop."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else "no reason given"
