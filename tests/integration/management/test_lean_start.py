"""Modules that a serving process loads only on demand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LATER = {
    "authlib.integrations": "signing in elsewhere",
    "django.test": "tests",
    "drf_spectacular.openapi": "the description of our own API",
    "joserfc": "signing in elsewhere",
    "pika": "a broker that was not configured",
    "psycopg": "a database that was not configured",
    "pygments": "pages of a library that we do not use",
    "redis": "a broker that was not configured",
    "requests": "clients of other services",
    "segno": "the QR code of an authenticator's secret",
    "yaml": "the description of our own API",
}
# What processes without APIs and pages do not load, besides all of the above.
APIS = {"rest_framework.schemas": "an API", "drf_spectacular.settings": "its description", "a2wsgi": "a web server"}
OF_PROCESS = {
    "conductor": APIS | {"cryptography.x509": "key pairs with a certificate", "jsonschema": "options of plugins"},
    "compute": APIS,
}
PROGRAM = """
import json, sys
{}
print(json.dumps(sorted(sys.modules)))
"""


def test_rarely_used_modules_are_loaded_on_demand(tmp_path: Path) -> None:
    loaded = _loaded("import portal.asgi, portal.urls", tmp_path)
    assert {"portal.pages.urls", "rest_framework.compat", "portal.openid"} <= loaded
    assert {name: why for name, why in LATER.items() if name in loaded} == {}


@pytest.mark.parametrize("command", OF_PROCESS)
def test_processes_without_pages_load_nothing_of_them(command: str, tmp_path: Path) -> None:
    loaded = _loaded(f"import django; django.setup(); import conductor.management.commands.{command}", tmp_path)
    assert "conductor.apps" in loaded
    later = LATER | OF_PROCESS[command]
    assert {name: why for name, why in later.items() if name in loaded} == {}


def _loaded(imports: str, data_dir: Path) -> set[str]:
    """Return the names of all modules that a process has loaded after these imports."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA_", "COV_"))}
    settings = {"NOVELLA_DATA": str(data_dir), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(imports)],
        cwd=ROOT,
        env=kept | settings,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return set(json.loads(ran.stdout))
