"""The built wheel, installed in an empty environment without a checkout, starts the embedded default."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.acceptance.cloud import PROJECT, Cloud
from tests.acceptance.nursery import inherited_environment

UV = Path(sys.prefix) / "bin" / "uv"
SECONDS = 240.0
BROWSER_FILES = (
    "/static/vendor/novnc-1.7.0/core/rfb.js",
    "/static/vendor/xterm-6.0.0/xterm.mjs",
    "/static/vendor/addon-fit-0.11.0/addon-fit.mjs",
)
CLIENTS = ("psycopg", "pika", "redis", "channels_redis", "kazoo", "etcd3gw", "authlib", "sushy", "nova-")
PINNED = re.compile(r"^[a-z0-9._-]+==[^\\\n]+", re.MULTILINE)  # the rest of the line may limit it to some machines


def run(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program away from the checkout, so that nothing of it can be imported by chance."""
    return subprocess.run(
        [str(word) for word in words],
        env={**inherited_environment(), **variables},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def succeed(*words: object) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def novella(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script of an environment that has the wheel, at the locked versions, and no extras."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    succeed(UV, *build, PROJECT)
    (wheel,) = folder.glob("*.whl")
    locked = folder / "constraints.txt"
    locked.write_text("\n".join(PINNED.findall((PROJECT / "requirements" / "base.lock").read_text())))
    python = folder / "venv" / "bin" / "python"
    succeed(UV, "venv", "--quiet", "--python", sys.executable, python.parent.parent)
    succeed(UV, "pip", "install", "--quiet", "--python", python, "--constraint", locked, wheel)
    return python.parent / "novella"


@pytest.fixture(scope="module")
def installed(novella: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """`novella up` with the home directory of a new user, and no other setting than a port."""
    home = tmp_path_factory.mktemp("home")
    cloud = Cloud(home / ".local" / "share" / "novella", HOME=str(home), NOVELLA_DATA="", XDG_DATA_HOME="")
    cloud.program, cloud.folder = (novella,), Path("/")
    cloud.start()
    yield cloud
    assert cloud.stop() == 0, cloud.log_tail()


def test_the_help_lists_each_command_with_a_line(novella: Path, tmp_path: Path) -> None:
    shown = run(novella, "--help", NOVELLA_DATA=str(tmp_path)).stdout
    for name in ("up", "web", "conductor", "compute", "seed", "plugins"):
        assert re.search(rf"^  {name} +[A-Z].*\.$", shown, re.MULTILINE), name


def test_the_help_of_a_command_reads_like_a_manual_page(novella: Path, tmp_path: Path) -> None:
    shown = run(novella, "drain", "--help", NOVELLA_DATA=str(tmp_path)).stdout
    parts = ("usage: novella drain", "positional arguments:", "options:", "exit codes:", "examples:")
    assert [part for part in parts if not re.search(f"^{part}", shown, re.MULTILINE)] == []


def test_clients_of_other_services_are_extras(novella: Path) -> None:
    packages = next((novella.parent.parent / "lib").glob("python3*")) / "site-packages"
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (metadata,) = packages.glob("novella-*.dist-info/METADATA")
    assert set(re.findall(r"^Provides-Extra: (\S+)$", metadata.read_text(), re.MULTILINE)) == set(declared)
    clients = ["postgresql", "rabbitmq", "redis", "zookeeper", "etcd", "openid", "redfish", "nova-adapter"]
    assert set(clients) <= set(declared)
    assert [path.name for client in CLIENTS for path in packages.glob(f"{client}*")] == []


def test_the_shell_completes_commands(novella: Path, tmp_path: Path) -> None:
    script = run(novella, "completion", "bash", NOVELLA_DATA=str(tmp_path)).stdout
    line = "COMP_WORDS=(novella se); COMP_CWORD=1; _novella; echo ${COMPREPLY[@]}"
    assert run("bash", "-c", f"{script}\n{line}").stdout == "seed\n"


def test_type_checkers_see_the_types_of_the_package(novella: Path) -> None:
    packages = next((novella.parent.parent / "lib").glob("python3*")) / "site-packages"
    assert {path.parent.name for path in packages.glob("*/py.typed")} >= {
        "portal",
        "conductor",
        "scheduler_plugins",
        "compute_drivers",
    }


def test_pages_of_the_installed_package_are_complete(installed: Cloud) -> None:
    with requests.Session() as browser:
        browser.headers["Accept-Language"] = "de"
        page = browser.get(f"{installed.url}/sign-in", timeout=SECONDS)
        assert "<title>Anmelden" in page.text
        token = browser.cookies["novella_csrf"]
        password = json.loads((installed.data_dir / "passwords.json").read_text())["admin"]
        form = {"username": "admin", "password": password, "csrfmiddlewaretoken": token, "next": "/settings"}
        page = browser.post(f"{installed.url}/sign-in", form, headers={"Referer": page.url}, timeout=SECONDS)
        assert (page.status_code, page.url) == (200, f"{installed.url}/settings")
        assert "NOVELLA_DATA" in page.text
        assert "Datenbanken" in page.text, "the meaning of each setting comes from the documentation"
        linked = re.findall(r'(?:href|src)="(/static/[^"#]+)', page.text)
        for path in (*linked, *BROWSER_FILES):
            assert browser.get(installed.url + path, timeout=SECONDS).status_code == 200, path
        assert len(linked) > 5


def test_a_server_starts_and_is_deleted(installed: Cloud) -> None:
    uuid = installed.launch("web-1").json["server"]["id"]
    assert installed.wait_for_status(uuid, "ACTIVE")["name"] == "web-1"
    assert installed.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    installed.wait_until_gone(uuid)


@pytest.mark.parametrize(
    ("variable", "value", "extra"),
    [
        ("DATABASE_URL", "postgresql://novella:secret@localhost/novella", "postgresql"),
        ("BROKER_URL", "amqp://localhost", "rabbitmq"),
        ("NOTIFICATION_URL", "amqps://localhost", "rabbitmq"),
        ("CHANNEL_URL", "redis://localhost", "redis"),
        ("MEMBERSHIP_URL", "zookeeper://localhost:2181/novella", "zookeeper"),
        ("MEMBERSHIP_URL", "etcd://localhost:2379/novella", "etcd"),
        ("OIDC_ISSUER", "https://id.example.org", "openid"),
    ],
)
def test_a_setting_that_needs_an_extra_names_it(
    novella: Path, tmp_path: Path, variable: str, value: str, extra: str
) -> None:
    settings = {"NOVELLA_DATA": str(tmp_path), f"NOVELLA_{variable}": value}
    if variable == "OIDC_ISSUER":
        settings["NOVELLA_OIDC_CLIENT_ID"] = "novella"
    refused = run(novella, "up", **settings)
    assert refused.returncode == 2
    assert refused.stderr == f"NOVELLA_{variable}: a client is missing; run: pip install 'novella[{extra}]'\n"
