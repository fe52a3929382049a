"""Access by the machine's other accounts to a cloud's files: none, even in a folder that was open before."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cloud import PROJECT, START_SECONDS, Cloud, copy_seeded
from tests.acceptance.nursery import Nursery

OTHER = pwd.getpwnam("nobody")
# Attempts of another account: list everything readable, and try the names that every cloud has.
THIEF = 'cd /; find "$0" -readable 2>/dev/null; for name in "$@"; do test -r "$0/$name" && echo "$0/$name"; done; true'
NAMES = ("api.sqlite3", "cell1.sqlite3", "secret_key", "passwords.json", "openrc.sh", "images", "agents")


@pytest.fixture
def opened(seeded_data: Path) -> Iterator[Path]:
    """A data folder of an earlier release, which every account can read, where every account can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="nv-open-"))
    folder.chmod(0o755)
    data_dir = copy_seeded(seeded_data, folder / "var")
    for path in (data_dir, *data_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield data_dir
    shutil.rmtree(folder)


def stolen(data_dir: Path) -> list[str]:
    """Return the parts of the folder that the account `nobody` can list or read."""
    done = subprocess.run(
        ["/bin/sh", "-c", THIEF, str(data_dir), *NAMES],
        user=OTHER.pw_uid,
        group=OTHER.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_another_account_finds_nothing(opened: Path, nursery: Nursery) -> None:
    assert len(stolen(opened)) > len(NAMES), "the attack works on a folder that is open"
    cloud = Cloud(opened, nursery).start()
    try:
        uuid = cloud.launch("web-1").json["server"]["id"]
        cloud.wait_for_status(uuid, "ACTIVE")
        assert stolen(opened) == []
        open_to_others = {
            str(path.relative_to(opened)): oct(path.lstat().st_mode)
            for path in opened.rglob("*")
            if path != cloud.log_path and not path.is_symlink() and path.lstat().st_mode & 0o077
        }
        assert stat.S_IMODE(opened.stat().st_mode) == 0o700
        assert {name for name in open_to_others if name.count("/") < 2} == set()
        assert "other accounts could use" in cloud.log_path.read_text()
    finally:
        assert cloud.stop() == 0, cloud.log_tail()


def started(data_dir: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), "up"],
        env=Cloud(data_dir).environment(),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        cwd=PROJECT,
    )
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()


@pytest.mark.parametrize("planted", ["", "passwords.json", "agents/sim-1-01.sqlite3", "images"])
def test_files_of_another_account_stop_the_start(tmp_path: Path, planted: str) -> None:
    path = tmp_path / "var" / planted
    path.parent.mkdir(parents=True, exist_ok=True)
    if planted.endswith((".json", ".sqlite3")):
        path.write_text("{}")
    else:
        path.mkdir(exist_ok=True)
    os.chown(path, OTHER.pw_uid, OTHER.pw_gid)
    code, lines = started(tmp_path / "var")
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"NOVELLA_DATA: {path} belongs to nobody (uid {OTHER.pw_uid})")
    assert "chown" in lines[0]
    assert not (tmp_path / "var" / "api.sqlite3").exists()


@pytest.mark.parametrize("entry", ["portal.cli", "portal.asgi", "portal.wsgi"])
def test_every_entry_point_sets_the_umask(tmp_path: Path, entry: str) -> None:
    begin = f"import {entry}" if entry != "portal.cli" else "from portal import cli; cli.main(['novella', 'check'])"
    show = "import os; print(oct(os.umask(0)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{show}"],
        env=Cloud(tmp_path / "var").environment(),
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        umask=0o022,
    )
    assert done.stdout.splitlines()[-1] == "0o77"
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o700
