"""Installs missing Debian packages, if this user may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Debian starts a service on installation, and creates a first PostgreSQL cluster. The packages are for tests, which
# start servers of their own. Both are switched off, starting services only during the installation.
POLICY = Path("/usr/sbin/policy-rc.d")
NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/novella.conf")
SYSTEMD = Path("/run/systemd/system")  # it is there where systemd runs
PACKAGE_LISTS = Path("/var/lib/apt/lists")
# A network that is away for a moment is waited for: apt's pauses grow to half a minute.
RETRIES = ("-o", "Acquire::Retries=8")


class CannotInstall(Exception):
    """The packages cannot be installed; one line with the reason and the remedy."""


def missing(packages: Sequence[str]) -> list[str]:
    """Return the packages that are not installed, in the given order; all of them without dpkg."""
    if not shutil.which("dpkg-query"):
        return list(packages)
    requested = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,  # exits 1 when one package is unknown, and still names the others
    )
    installed = {line.split()[0] for line in requested.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def install(packages: Sequence[str]) -> None:
    """Install `packages` non-interactively; updates the package lists only if that fails."""
    command = _apt_get(packages)
    # Package lists that are missing or outdated name files that the mirror does not have: update them once.
    if not any(PACKAGE_LISTS.glob("*_Packages*")) or _failure([*command, "install", *packages]):
        refresh_failure = _failure([*command, "update"])
        failure = _failure([*command, "install", *packages])
        if failure:
            raise CannotInstall(f"apt-get could not install {' '.join(packages)}: {refresh_failure or failure}")


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Prevent the package tools from starting services inside the block. Raises CannotInstall."""
    become_root = _become_root("install it by hand")
    is_ours = not POLICY.exists()
    if is_ours:
        _as_root(become_root, f"printf '#!/bin/sh\nexit 101\n' > {POLICY} && chmod 755 {POLICY}")
    _as_root(become_root, f"mkdir -p {NO_CLUSTER.parent} && echo 'create_main_cluster = false' > {NO_CLUSTER}")
    try:
        yield
    finally:
        if is_ours:
            _as_root(become_root, f"rm -f {POLICY}")


def disable(services: Sequence[str]) -> None:
    """Keep services of packages that were just installed from starting at the next boot. Raises CannotInstall."""
    if services and SYSTEMD.is_dir():
        _as_root(_become_root("disable them by hand"), f"systemctl disable --quiet {' '.join(services)}")


def _as_root(become_root: Sequence[str], script: str) -> None:
    failure = _failure([*become_root, "sh", "-c", script])
    if failure:
        raise CannotInstall(failure)


def _apt_get(packages: Sequence[str]) -> list[str]:
    by_hand = f"install by hand: sudo apt-get install {' '.join(packages)}"
    if not shutil.which("apt-get"):
        raise CannotInstall(f"no apt-get here; this needs what Debian calls {' '.join(packages)}")
    become_root = _become_root(by_hand)
    quietly = ["-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600", *RETRIES]
    return [*become_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *quietly, "-o", "Dpkg::Use-Pty=0"]


def _become_root(otherwise: str) -> list[str]:
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not _failure(["sudo", "-n", "true"]):
        return ["sudo", "-n"]
    raise CannotInstall(f"neither root nor sudo without a password; {otherwise}")


def _failure(command: Sequence[str]) -> str:
    """Run `command`; returns the last line of its error output when it failed, else ""."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return ""
    complaints = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return complaints[-1] if complaints else f"exit code {ended.returncode}"
