"""What a process that serves does not load before somebody needs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
    "segno": "the picture of an authenticator's secret",
    "yaml": "the description of our own API",
}
PROGRAM = """
import json, sys
import portal.asgi, portal.urls
print(json.dumps(sorted(sys.modules)))
"""


def test_what_few_need_is_loaded_when_they_need_it(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA_", "COV_"))}
    settings = {"NOVELLA_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=kept | settings, capture_output=True, timeout=120, check=True
    )
    loaded = set(json.loads(ran.stdout))
    assert {"portal.pages.urls", "rest_framework.compat", "portal.openid"} <= loaded
    assert {name: why for name, why in LATER.items() if name in loaded} == {}
