"""Preparation of a new cloud before its processes start; idempotent."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from conductor.management.databases import create_missing, migrate_all
from conductor.management.seeding import seed_all
from conductor.management.tiny_linux import builder
from conductor.services.accounts import credentials


def prepare(data_dir: Path, tiny_linux_dir: Path | None = None) -> dict[str, str]:
    """Create missing databases, migrate and seed all; returns the first passwords."""
    create_missing()
    migrate_all()
    passwords = credentials.load_or_generate_passwords(data_dir)
    seed_all(passwords, tiny_linux_dir)
    credentials.write(data_dir, base_url(), passwords)
    return passwords


def build_tiny_linux(data_dir: Path) -> Path:
    """Return the folder with a real Linux image, built on this machine the first time. Raises builder.CannotBuild."""
    target = data_dir / "tiny-linux"
    builder.build(target)
    return target


def base_url() -> str:
    """Return the URL of the web server for clients, from the settings."""
    return settings.NOVELLA_PUBLIC_URL or url_of(settings.NOVELLA_HOST, settings.NOVELLA_PORT)


def url_of(host: str, port: int) -> str:
    """Return a server's URL; one that listens on every interface is shown with its loopback address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if settings.NOVELLA_TLS_CERT else 'http'}://{shown}:{port}"
