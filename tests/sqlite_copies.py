"""Copies of SQLite databases that a process has open, made by another process.

    with closing(sqlite3.connect(copy_of(path, tmp_path))) as sql: ...   # one consistent state
    assert SECRET not in content_of(path, tmp_path)                      # all bytes of the file, its log and the copy

SQLite locks a file with POSIX locks. When a process closes any descriptor of the file, the kernel drops all locks that
the process has on it: other processes then overwrite committed rows or truncate the shared memory that is in use. So
no test reads, copies or opens such a file itself.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

SECONDS = 60.0
LOG = "-wal"
BYTES = ".bytes"


def copy_of(path: Path, folder: Path) -> Path:
    """Copy the database to `folder`, as it is at one moment, and return the copy's path.

    The backup API copies free pages too. A journal that its agent locks against other processes is copied file by
    file.
    """
    _run("copy", path, folder)
    return folder / path.name


def content_of(path: Path, folder: Path) -> bytes:
    """Return the bytes of a copy, of the database's file and of its log.

    The copy alone is not enough: where SQLite overwrites deleted data (`secure_delete`), their only trace is in the
    log.
    """
    _run("content", path, folder)
    return b"".join(part.read_bytes() for part in sorted(folder.glob(f"{path.name}*")))


def _run(what: str, path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{path.name}*"):
        old.unlink()
    done = subprocess.run(
        [sys.executable, "-IS", __file__, what, str(path), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def _back_up(path: Path, target: Path) -> None:
    address = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as source:
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # the backup itself waits without a limit
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        target.unlink(missing_ok=True)
        _copy_files(path, target)


def _copy_files(path: Path, target: Path) -> None:
    """Copy the file and its log. Repeat it until neither changes meanwhile."""
    log = path.with_name(path.name + LOG)
    parts = [(path, target), (log, target.with_name(target.name + LOG))]
    for _ in range(1000):
        before = [_state(source) for source, _ in parts]
        for source, copy in parts:
            copy.unlink(missing_ok=True)
            if source.exists():
                shutil.copyfile(source, copy)
        if before == [_state(source) for source, _ in parts]:
            return
    raise SystemExit(f"{path} changes all the time")


def _state(path: Path) -> tuple[int, int] | None:
    if not path.exists():
        return None
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def main(what: str, path: Path, folder: Path) -> None:
    if what == "content":
        # Before this process opens the database: as its last user it would remove the log.
        for part in (path, path.with_name(path.name + LOG)):
            if part.exists():
                shutil.copyfile(part, folder / f"{part.name}{BYTES}")
    _back_up(path, folder / path.name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
