"""`manage.py up`: the embedded default, all of it in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from conductor.management import preflight
from conductor.management.databases import migrate_all
from conductor.management.default_fleet import default_fleet
from conductor.management.embedded import Embedded
from conductor.management.seeding import seed_all
from conductor.services import credentials

BUILDER = "tools/build_tiny_linux.py"


class Command(BaseCommand):
    help = "Start the whole cloud in this process: web server, conductors, scheduler, agents, on SQLite files."

    def handle(self, *args: Any, **options: Any) -> None:
        data_dir: Path = settings.NOVELLA_DATA
        preflight.require_writable(data_dir)
        held = preflight.require_alone(data_dir)
        preflight.require_free_port(settings.NOVELLA_HOST, settings.NOVELLA_PORT)
        migrate_all()
        fleet = default_fleet(data_dir)
        self.stdout.write(fleet.remark)
        tiny_linux = self._tiny_linux(data_dir) if fleet.real_host else None
        passwords = credentials.load_or_generate_passwords(data_dir)
        seed_all(passwords, tiny_linux)
        credentials.write(data_dir, _base_url(), passwords)
        embedded = Embedded(fleet.hosts)
        embedded.start()
        try:
            embedded.serve(lambda: self._say_ready(data_dir, passwords))
        finally:
            embedded.stop()
            held.close()

    def _tiny_linux(self, data_dir: Path) -> Path | None:
        """The folder with a real Linux image, built on this machine the first time; None when that fails."""
        target = data_dir / "tiny-linux"
        build = [sys.executable, str(Path(settings.BASE_DIR) / BUILDER), "--output", str(target)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return target
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        self.stdout.write(f"No image tiny-linux: {reason}")
        return None

    def _say_ready(self, data_dir: Path, passwords: dict[str, str]) -> None:
        self.stdout.write(
            f"Sign in as demo with the password {passwords['demo']}; "
            f"the administrator's is in {data_dir}/passwords.json\n"
            f"For the openstack client: source {data_dir}/openrc.sh demo\n"
            f"Novella is ready: {_base_url()}"
        )
        self.stdout.flush()


def _base_url() -> str:
    host = settings.NOVELLA_HOST
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{settings.NOVELLA_PORT}"
