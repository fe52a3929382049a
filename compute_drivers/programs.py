"""Programs of the machine, run with an end in sight and with errors that name no paths."""

from __future__ import annotations

import subprocess

from conductor.core.errors import DriverError

SECONDS = 60.0
# Debian's packages of what the driver runs.
PACKAGES = {
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "dnsmasq": "dnsmasq-base",
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
    """Whatever it answers. Raises DriverError when it is not installed or does not end in time."""
    try:
        return subprocess.run(words, input=given, capture_output=True, timeout=seconds, check=False)
    except OSError as error:
        raise not_there(words[0], error) from None
    except subprocess.TimeoutExpired:
        raise DriverError(f"The program {words[0]} did not end within {seconds:g} seconds.") from None


def must(what: str, *words: str, given: bytes = b"", seconds: float = SECONDS) -> bytes:
    """What it answers. Raises DriverError, beginning with `what`, when it fails."""
    done = run(*words, given=given, seconds=seconds)
    if done.returncode:
        raise DriverError(f"{what}: {last_line(done.stderr)}.")
    return done.stdout


def not_there(program: str, error: OSError) -> DriverError:
    if isinstance(error, FileNotFoundError):
        package = PACKAGES.get(program)
        cure = f": apt-get install {package}" if package else ""
        return DriverError(f"The program {program} is not installed on this host{cure}.")
    return DriverError(f"The program {program} cannot be started on this host: {error.strerror}.")


def last_line(said: bytes) -> str:
    """Of what a program complained."""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else "no reason given"
