"""Initial contents of a new cloud; seeding is idempotent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from conductor.api_db.models import CellMapping
from conductor.cells.lookup import CELL0
from conductor.identity import seed as identity_seed
from conductor.identity.models import Project
from conductor.image import seed as image_seed
from conductor.network import seed as network_seed
from conductor.rpc.key_store import STORE
from conductor.services.servers import flavors


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
