"""`novella up`: its output, its files, its refusals, and how it ends."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.management.commands import up
from conductor.management.tiny_linux import builder
from conductor.services.audit import seals
from tests.acceptance.cloud import Cloud
from tests.fixtures.starts import refused


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The very first start, as people type it: in a data folder that is not there yet."""
    cloud = Cloud(tmp_path_factory.mktemp("first") / "var").start()
    yield cloud
    assert cloud.stop() == 0, cloud.log_tail()


def test_a_second_start_keeps_everything_and_sigterm_ends_cleanly(new_cloud: Callable[..., Cloud]) -> None:
    cloud = new_cloud().start()
    uuid = cloud.launch("web-1").json["server"]["id"]
    cloud.wait_for_status(uuid, "ACTIVE")
    passwords = (cloud.data_dir / "passwords.json").read_text()
    assert cloud.stop() == 0, cloud.log_tail()
    cloud.start()
    assert cloud.server(uuid)["status"] == "ACTIVE"
    assert (cloud.data_dir / "passwords.json").read_text() == passwords
    assert cloud.guests() == [uuid]


def test_the_ready_line_is_last_and_health_answers(first: Cloud) -> None:
    lines = first.log_path.read_text().strip().splitlines()
    assert lines[-1] == f"Novella is ready: {first.url}"
    for path in ("/healthz", "/readyz"):
        assert first.call("GET", path, user="").status == 200


def test_credentials_are_private_files(first: Cloud) -> None:
    for name in ("openrc.sh", "clouds.yaml", "passwords.json", "secret_key"):
        mode = stat.S_IMODE((first.data_dir / name).stat().st_mode)
        assert mode == 0o600, name
    passwords = json.loads((first.data_dir / "passwords.json").read_text())
    assert len({passwords["admin"], passwords["demo"]}) == 2
    log = first.log_path.read_text()
    assert passwords["admin"] not in log
    assert passwords["demo"] not in log
    assert f"{first.data_dir}/passwords.json" in log


def test_a_terminal_shows_the_password(tmp_path: Path) -> None:
    screen, keyboard = os.openpty()
    with os.fdopen(keyboard, "w") as terminal:
        up.Command(stdout=terminal)._say_ready(tmp_path, {"demo": "see-me", "admin": "not-me"})
    shown = os.read(screen, 4096).decode()
    os.close(screen)
    assert "Sign in as demo with the password see-me" in shown
    assert "not-me" not in shown


def test_the_file_of_the_passwords_is_named_once(tmp_path: Path) -> None:
    printed = io.StringIO()
    up.Command(stdout=printed)._say_ready(tmp_path, {"demo": "see-me", "admin": "not-me"})
    assert f"Sign in as demo or admin; their passwords are in {tmp_path}/passwords.json\n" in printed.getvalue()
    assert printed.getvalue().count("passwords.json") == 1


def test_the_first_start_announces_that_it_builds_the_image_and_a_later_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started() -> str:
        out = io.StringIO()
        assert up.Command(stdout=out)._tiny_linux(tmp_path) == tmp_path / "tiny-linux"
        return out.getvalue()

    monkeypatch.setattr(builder, "build", lambda output: "built")
    monkeypatch.setattr(builder, "is_current", lambda output: False)
    assert started().startswith("Building the image tiny-linux")
    monkeypatch.setattr(builder, "is_current", lambda output: True)
    assert started() == ""


def test_a_terminal_shows_no_seals_and_a_log_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals.log, "level", logging.NOTSET)
    up.Command(stderr=io.StringIO())._spare_the_terminal()
    assert seals.log.level == logging.NOTSET
    screen, keyboard = os.openpty()
    with os.fdopen(keyboard, "w") as terminal:
        up.Command(stderr=terminal)._spare_the_terminal()
    os.close(screen)
    assert seals.log.level == logging.WARNING
    assert not seals.log.isEnabledFor(logging.INFO)


def test_a_port_in_use_is_one_line(new_cloud: Callable[..., Cloud]) -> None:
    cloud = new_cloud()
    with socket.socket() as other:
        other.bind(("127.0.0.1", cloud.port))
        other.listen()
        code, lines = refused(cloud)
    assert code != 0
    assert len(lines) == 1
    assert "NOVELLA_PORT" in lines[0]
    assert str(cloud.port) in lines[0]


def test_a_data_folder_in_use_is_one_line(first: Cloud) -> None:
    code, lines = refused(Cloud(first.data_dir))
    assert code != 0
    assert len(lines) == 1
    assert "another Novella runs" in lines[0]


def test_a_data_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    cloud = Cloud(tmp_path / "var")
    code, lines = refused(cloud, NOVELLA_DATA=str(in_the_way / "var"))
    assert code != 0
    assert len(lines) == 1
    assert "NOVELLA_DATA" in lines[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("NOVELLA_PORT", "http"), ("NOVELLA_PORT", "70000"), ("NOVELLA_HOST", "1.2.3"), ("NOVELLA_PROT", "8000")],
)
def test_a_wrong_variable_is_one_line_that_names_it(tmp_path: Path, name: str, value: str) -> None:
    code, lines = refused(Cloud(tmp_path / "var"), **{name: value})
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"{name}:")
    assert not (tmp_path / "var" / "api.sqlite3").exists()


def test_a_child_process_inherits_no_variable_of_the_tests() -> None:
    assert "NOVELLA_CRASH_AT" not in os.environ
