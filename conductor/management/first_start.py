"""Preparation of a new cloud before its processes start; idempotent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from conductor.api_db.models import CellMapping
from conductor.cells.lookup import CELL0
from conductor.identity import seed as identity_seed
from conductor.identity.models import Project
from conductor.image import seed as image_seed
from conductor.management.databases import create_missing, migrate_all
from conductor.management.tiny_linux import builder
from conductor.network import seed as network_seed
from conductor.rpc.key_store import STORE
from conductor.services.accounts import credentials
from conductor.services.servers import flavors


def prepare(data_dir: Path, tiny_linux_dir: Path | None = None) -> dict[str, str]:
    """Create missing databases, migrate and seed all; returns the first passwords."""
    create_missing()
    migrate_all()
    passwords = credentials.load_or_generate_passwords(data_dir)
    seed_all(passwords, tiny_linux_dir)
    credentials.write(data_dir, base_url(), passwords)
    return passwords


def has_tiny_linux(data_dir: Path) -> bool:
    """Return whether the real Linux image is there and current."""
    return builder.is_current(_tiny_linux_dir(data_dir))


def build_tiny_linux(data_dir: Path) -> Path:
    """Return the folder with a real Linux image, built on this machine the first time. Raises builder.CannotBuild."""
    target = _tiny_linux_dir(data_dir)
    builder.build(target)
    return target


def _tiny_linux_dir(data_dir: Path) -> Path:
    return data_dir / "tiny-linux"


def base_url() -> str:
    """Return the URL of the web server for clients, from the settings."""
    return settings.NOVELLA_PUBLIC_URL or url_of(settings.NOVELLA_HOST, settings.NOVELLA_PORT)


def url_of(host: str, port: int) -> str:
    """Return a server's URL; one that listens on every interface is shown with its loopback address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if settings.NOVELLA_TLS_CERT else 'http'}://{shown}:{port}"


def seed_all(passwords: Mapping[str, str], tiny_linux_dir: Path | None) -> None:
    """Create cells, users, flavors, images and the shared network. `passwords` has the keys admin and demo."""
    for name in (CELL0, *settings.CELLS):
        CellMapping.objects.get_or_create(name=name)
    STORE.conductor_keys()  # the first use creates the conductors' key
    identity_seed.seed(admin_password=passwords["admin"], demo_password=passwords["demo"])
    admin_project = Project.objects.get(domain_id="default", name="admin")
    flavors.seed()
    image_seed.seed(admin_project.id, tiny_linux_dir)
    network_seed.seed(admin_project.id, leads_out=True)
