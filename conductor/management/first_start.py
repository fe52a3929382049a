"""What a new cloud needs before its processes can start; doing it again changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from django.conf import settings

from conductor.management.databases import create_missing, migrate_all
from conductor.management.seeding import seed_all
from conductor.services import credentials

BUILDER = "tools/build_tiny_linux.py"


class NotBuilt(Exception):
    """One line: why there is no real Linux image."""


def prepare(data_dir: Path, tiny_linux_dir: Path | None = None) -> dict[str, str]:
    """Make the databases that are missing, bring all to the newest schema and fill them; the first passwords."""
    create_missing()
    migrate_all()
    passwords = credentials.load_or_generate_passwords(data_dir)
    seed_all(passwords, tiny_linux_dir)
    credentials.write(data_dir, base_url(), passwords)
    return passwords


def build_tiny_linux(data_dir: Path) -> Path:
    """The folder with a real Linux image, built on this machine the first time. Raises NotBuilt."""
    target = data_dir / "tiny-linux"
    build = [sys.executable, str(Path(settings.BASE_DIR) / BUILDER), "--output", str(target)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return target


def base_url() -> str:
    """Where clients find the web server that the settings describe."""
    return settings.NOVELLA_PUBLIC_URL or url_of(settings.NOVELLA_HOST, settings.NOVELLA_PORT)


def url_of(host: str, port: int) -> str:
    """A server that listens on every interface is shown by its loopback address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if settings.NOVELLA_TLS_CERT else 'http'}://{shown}:{port}"
